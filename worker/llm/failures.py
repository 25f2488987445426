"""Puts what litellm raises into words that say what happened, and that retries can be decided on.

litellm wraps every error of a provider's client in one of its own classes, some of them with
made-up status codes, so the facts are taken from the exceptions further down the chain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from errno import ETIMEDOUT
from json import JSONDecodeError
from typing import TypeVar

import httpx

from worker.llm.client import ModelCallFailed, ReplyTooLarge, no_key
from worker.masking import mask

E = TypeVar("E", bound=BaseException)

# A server's page of HTML says no more after this many characters.
MESSAGE_LIMIT = 1_000

# litellm's and its clients' class names, which it puts in front of a message.
_WRAPPERS = re.compile(r"(?:litellm\.)?\w+(?:Error|Exception|Timeout)(?::| -)(?: |$)")
_SECONDS = re.compile(r"\d{1,9}(?:\.\d+)?")
_MISSING_KEY = re.compile(r"api.?key|credential", re.IGNORECASE)


def failure_of(error: Exception, limit_s: float, missing_keys: Sequence[str]) -> ModelCallFailed:
    """The failure of a model call that had `limit_s` seconds, as one line without secrets.

    `missing_keys` names the environment variables that lack a key, should that be the cause.
    """
    chain = list(_chain(error))
    too_large = _first(chain, ReplyTooLarge)
    if too_large is not None:
        return too_large
    answered = _first(chain, httpx.HTTPStatusError)
    if answered is not None:
        response = answered.response
        text = f"HTTP {response.status_code}: {_server_message(response)}"
        if response.status_code == 401 and missing_keys:
            text += f" ({no_key(missing_keys)})"
        return ModelCallFailed(_one_line(text), _retry_after_s(response))
    text = _network_failure(chain, limit_s) or _local_failure(chain, missing_keys)
    return ModelCallFailed(_one_line(text))


def _network_failure(chain: Sequence[BaseException], limit_s: float) -> str | None:
    """What kept the request from being answered; None if it was never sent."""
    at = _address(chain)
    if _first(chain, httpx.ConnectTimeout):
        return f"connecting{at} timed out"
    # To Python this is a time-out too, but it is the kernel's: the way to the server is lost.
    if any(isinstance(error, OSError) and error.errno == ETIMEDOUT for error in chain):
        return f"Connection reset{at}: the server stopped responding"
    if _first(chain, httpx.TimeoutException) or _first(chain, TimeoutError):
        return f"timed out after {limit_s:.4g}s"
    if _first(chain, ConnectionRefusedError):
        return f"Connection refused{at}"
    # A server that hangs up without an answer has reset the connection for all we can tell.
    if _first(chain, ConnectionError) or _first(chain, httpx.RemoteProtocolError):
        return f"Connection reset{at}"
    if unreadable := _first(chain, httpx.DecodingError):
        return str(unreadable)
    transport_error = _first(chain, httpx.TransportError)
    return f"no connection{at}: {transport_error}" if transport_error else None


def _local_failure(chain: Sequence[BaseException], missing_keys: Sequence[str]) -> str:
    """What went wrong on this side of the connection, or with what came over it."""
    if _first(chain, RecursionError):
        return "the server's answer is JSON that is nested too deeply"
    if broken := _first(chain, JSONDecodeError):
        return f"the server's answer is not JSON: {broken}"
    text = str(chain[0])
    if missing_keys and _MISSING_KEY.search(text):
        return no_key(missing_keys)
    return _unwrapped(text) or "the server's answer is not a completion"


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


def _server_message(response: httpx.Response) -> str:
    """The message of the usual error bodies, else the body, else the status in words."""
    try:
        body = response.json()
    except (ValueError, httpx.ResponseNotRead):
        body = None
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message") if isinstance(error, dict) else error
    if isinstance(message, str) and message.strip():
        return message
    try:
        return response.text.strip() or response.reason_phrase
    except httpx.ResponseNotRead:
        return response.reason_phrase


def _retry_after_s(response: httpx.Response) -> float | None:
    """`Retry-After` in seconds; the form with a date is not used by model servers."""
    for header, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = response.headers.get(header, "").strip()
        if _SECONDS.fullmatch(value):
            return float(value) * unit
    return None


def _unwrapped(text: str) -> str:
    text = text.partition("Traceback (most recent call last)")[0].strip()
    start = 0
    while match := _WRAPPERS.match(text, start):
        start = match.end()
    return text[start:]


def _one_line(text: str) -> str:
    line = " ".join(mask(text).split())
    return line if len(line) <= MESSAGE_LIMIT else line[:MESSAGE_LIMIT] + "…"
