"""Explains what clients raise: one line of text, and the facts as attributes.

litellm wraps every error of a provider's client in one of its own classes, some of them with
made-up status codes, so the facts are taken from the exceptions further down the chain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from errno import ETIMEDOUT
from json import JSONDecodeError
from typing import Any, TypeVar

import httpx

from sleipnir.graphs.document.finding import cut
from sleipnir.scheduler.config.masking import mask
from sleipnir.worker.llm.client import FailureKind, ModelCallFailed, ReplyTooLarge, no_key
from sleipnir.worker.llm.provider.transport import StreamStalled

E = TypeVar("E", bound=BaseException)

# Beyond this many characters a server's HTML page says nothing new.
MESSAGE_LIMIT = 1_000

# The longest pause that a server may ask for, whatever it says.
LONGEST_RETRY_AFTER_S = 600.0

# Class names of litellm and its clients, which it puts in front of messages.
_WRAPPERS = re.compile(r"(?:litellm\.)?\w+(?:Error|Exception|Timeout)(?::| -)(?: |$)")
# How providers say that a prompt exceeds their model's context.
_TOO_LONG = re.compile(
    r"context.?(?:length|window)|maximum context|(?:prompt|input) is too long"
    r"|exceeds? the (?:maximum|available) (?:number of tokens|context)|too many (?:input )?tokens",
    re.IGNORECASE,
)
_SECONDS = re.compile(r"\d{1,9}(?:\.\d+)?")
_MISSING_KEY = re.compile(r"api.?key|credential", re.IGNORECASE)

_STATUS_DIGITS = 3
_PAYMENT_REQUIRED = 402
_TOO_MANY_REQUESTS = 429
# The server is overloaded; 529 is Anthropic's.
_OVERLOADED = (503, 529)
# Codes that servers send in a stream, when the HTTP status is already sent.
_STATUS_OF = {
    "insufficient_quota": _TOO_MANY_REQUESTS,
    "rate_limit_exceeded": _TOO_MANY_REQUESTS,
    "rate_limit_error": _TOO_MANY_REQUESTS,
    "overloaded_error": 529,
    "server_error": 500,
    "internal_server_error": 500,
    "api_error": 500,
    "timeout_error": 504,
}
# litellm's status for an error without a code.
_NO_CODE = 422
# OpenAI has a code for an exhausted quota; others tell it from a rate limit in prose alone.
_NO_QUOTA = "insufficient_quota"
_QUOTA_WORDS = re.compile(r"insufficient_quota|quota|billing|credit balance", re.IGNORECASE)


def failure_of(error: Exception, limit_s: float, missing_keys: Sequence[str]) -> ModelCallFailed:
    """Return the failure of a call that had `limit_s` seconds, as one line without secrets.

    `missing_keys` names the environment variables that lack a key, in case that is the cause.
    """
    chain = list(_chain(error))
    too_large = _first(chain, ReplyTooLarge)
    if too_large is not None:
        return too_large
    answered = _first(chain, httpx.HTTPStatusError)
    if answered is not None:
        return _refused(answered.response, missing_keys)
    told = _error_in_reply(chain)
    if told is not None:
        return _told(told)
    kind, text = _network_failure(chain, limit_s) or ("other", _local_failure(chain, missing_keys))
    return ModelCallFailed(_one_line(text), kind)


def _refused(response: httpx.Response, missing_keys: Sequence[str]) -> ModelCallFailed:
    """Return the failure for an HTTP error of the server."""
    status, error = response.status_code, _server_error(response)
    message = _message_of(error) or _body_text(response)
    text = f"HTTP {status}: {message}"
    if status == 401 and missing_keys:
        text += f" ({no_key(missing_keys)})"
    kind = _kind_of(status, error, message)
    return ModelCallFailed(
        _one_line(text), kind, status=status, retry_after_s=_retry_after_s(response)
    )


def _told(error: Mapping[str, Any]) -> ModelCallFailed:
    """Return the failure for an error in place of a reply, under a status that says nothing."""
    codes = (error.get("code"), error.get("type"))
    known = [_STATUS_OF[code] for code in codes if isinstance(code, str) and code in _STATUS_OF]
    status = _status_in(codes[0]) or next(iter(known), None)
    message = _message_of(error) or "the server's answer is an error"
    text = message if status is None else f"error {status}: {message}"
    return ModelCallFailed(_one_line(text), _kind_of(status, error, message))


def _status_in(code: object) -> int | None:
    """Return a code that is an HTTP status, as a number or as text."""
    text = str(code)
    return int(text) if len(text) == _STATUS_DIGITS and text.isascii() and text.isdigit() else None


def _error_in_reply(chain: Sequence[BaseException]) -> Mapping[str, Any] | None:
    """Return the error that a server sent in place of a reply; None if there was none."""
    for error in chain:
        # set by ErrorReply, and by openai's class for the same
        event = getattr(error, "body", None)
        if isinstance(event, dict):
            return event
    # litellm has found it in a reply that was not streamed.
    first = chain[-1]
    if type(first) is not Exception or not hasattr(first, "status_code"):
        return None
    code = first.status_code
    return {"message": getattr(first, "message", None), "code": None if code == _NO_CODE else code}


def _kind_of(status: int | None, error: object, message: str) -> FailureKind:
    """Return which provider failure a server's error means."""
    if status == _PAYMENT_REQUIRED:
        return "quota_exceeded"
    if status == _TOO_MANY_REQUESTS:
        codes = (error.get("code"), error.get("type")) if isinstance(error, dict) else ()
        no_quota = _NO_QUOTA in codes or _QUOTA_WORDS.search(message)
        return "quota_exceeded" if no_quota else "throttled"
    if status in _OVERLOADED:
        return "throttled"
    return "too_long" if _TOO_LONG.search(f"{error} {message}") else "other"


def _network_failure(
    chain: Sequence[BaseException], limit_s: float
) -> tuple[FailureKind, str] | None:
    """Return why the request was not answered; None if the network was not the cause."""
    at = _address(chain)
    if _first(chain, httpx.ConnectTimeout):
        return "unavailable", f"connecting{at} timed out"
    # ETIMEDOUT, a timeout to Python too, comes from the kernel: the server cannot be reached.
    if any(isinstance(error, OSError) and error.errno == ETIMEDOUT for error in chain):
        return "unavailable", f"Connection reset{at}: the server stopped responding"
    if stalled := _first(chain, StreamStalled):
        return "timed_out", f"timed out: no more came for {stalled.stall_s:.4g}s (model_stall_s)"
    if _first(chain, httpx.TimeoutException) or _first(chain, TimeoutError):
        return "timed_out", f"timed out after {limit_s:.4g}s"
    if _first(chain, ConnectionRefusedError):
        return "unavailable", f"Connection refused{at}"
    # If a server hangs up without answering, treat it as a reset connection.
    if _first(chain, ConnectionError) or _first(chain, httpx.RemoteProtocolError):
        return "unavailable", f"Connection reset{at}"
    if unreadable := _first(chain, httpx.DecodingError):
        return "other", str(unreadable)
    transport_error = _first(chain, httpx.TransportError)
    return ("unavailable", f"no connection{at}: {transport_error}") if transport_error else None


def _local_failure(chain: Sequence[BaseException], missing_keys: Sequence[str]) -> str:
    """Return what went wrong on this side of the connection, or with the response."""
    if _first(chain, RecursionError):
        return "the server's answer is JSON that is nested too deeply"
    if broken := _first(chain, JSONDecodeError):
        return f"the server's answer is not JSON: {broken}"
    # litellm's error for a broken stream repeats the texts of all others.
    text = str(chain[1] if _is_mid_stream(chain[0]) and len(chain) > 1 else chain[0])
    if missing_keys and _MISSING_KEY.search(text):
        return no_key(missing_keys)
    return _unwrapped(text) or "the server's answer is not a completion"


def _is_mid_stream(error: BaseException) -> bool:
    return type(error).__name__ == "MidStreamFallbackError"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _first(chain: Sequence[BaseException], kind: type[E]) -> E | None:
    return next((error for error in chain if isinstance(error, kind)), None)


def _address(chain: Sequence[BaseException]) -> str:
    error = _first(chain, httpx.TransportError)
    try:
        url = error.request.url if error else None
    except RuntimeError:  # httpx: no request is attached
        url = None
    return f" at {url.scheme}://{url.netloc.decode()}" if url else ""


def _server_error(response: httpx.Response) -> Any:
    """Return the error in a usual body: an object with a message, or that itself; else None."""
    try:
        body = response.json()
    except (ValueError, httpx.ResponseNotRead):
        return None
    return body.get("error", body) if isinstance(body, dict) else body


def _message_of(error: object) -> str | None:
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) and message.strip() else None


def _body_text(response: httpx.Response) -> str:
    """Return the body, or the status in words."""
    try:
        return response.text.strip() or response.reason_phrase
    except httpx.ResponseNotRead:
        return response.reason_phrase


def _retry_after_s(response: httpx.Response) -> float | None:
    """Return the pause that the server asks for, bounded."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = response.headers.get(header, "").strip()
        if _SECONDS.fullmatch(value):
            return min(float(value) * unit, LONGEST_RETRY_AFTER_S)
    until = _instant(response, "retry-after")
    if until is None:
        return None
    # By the server's own clock, which may differ from ours.
    now = _instant(response, "date") or datetime.now(UTC)
    return min(max((until - now).total_seconds(), 0.0), LONGEST_RETRY_AFTER_S)


def _instant(response: httpx.Response, header: str) -> datetime | None:
    """Return the date in a header; None without a valid one."""
    try:
        found = parsedate_to_datetime(response.headers.get(header, ""))
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _unwrapped(text: str) -> str:
    text = text.partition("Traceback (most recent call last)")[0].strip()
    start = 0
    while match := _WRAPPERS.match(text, start):
        start = match.end()
    return text[start:]


def _one_line(text: str) -> str:
    return cut(" ".join(mask(text).split()), MESSAGE_LIMIT)
