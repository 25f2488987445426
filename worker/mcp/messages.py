"""Checks servers' messages before the SDK parses them.

Parsing a message of a few megabytes can cost the SDK minutes and gigabytes while it holds the
interpreter: it tries each part as every type that it might be. And it drops messages that it cannot
parse, so that their caller would wait forever. Here such an answer is replaced by an error that
says what is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from time import monotonic
from typing import Any, Final, NoReturn

import mcp.client.streamable_http
import mcp_types

from sleipnir.records import dataclass

# Bytes of one message; over HTTP the SDK itself limits events to 1 MiB. It assembles messages in
# memory, in more than linear time.
LONGEST_MESSAGE: Final = 8 * 1024 * 1024
MOST_PARTS: Final = 20_000
MOST_VALUES: Final = 500_000
DEEPEST: Final = 100
MOST_UNASKED: Final = 5_000
MOST_UNASKED_BYTES: Final = 64 * 1024 * 1024
_WINDOW_S = 60.0

# The SDK does not look into these; only the tool knows what they contain.
_OPAQUE = {"structuredContent", "inputSchema", "outputSchema"}

# A trailing lone backslash is included: otherwise a failing match would be retried from each quote
# before it.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_ID = re.compile(r'"id"\s{0,20}:\s{0,20}("[^"\\]{1,100}"|[0-9]{1,18})\s{0,20}[,}]')
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")  # alone if its other half does not follow
_NEAR = 1_000  # characters at each end of an unreadable message that are searched for its id
_TOO_MANY_VALUES = f"has more than {MOST_VALUES:,} values"
_REFUSED = -32603  # "internal error" of JSON-RPC


@dataclass(slots=True)
class UnaskedMessages:
    """Counts what a server sends without being asked: notifications, requests, invalid messages."""

    on_too_much: Callable[[], None]
    clock: Callable[[], float] = monotonic
    _ends_at: float = 0.0
    _count: int = 0
    _size: int = 0

    def take(self, size: int) -> None:
        """Count one more, of that many characters."""
        now = self.clock()
        if now >= self._ends_at:
            self._ends_at = now + _WINDOW_S
            self._count = self._size = 0
        was_too_much = self._is_too_much
        self._count += 1
        self._size += size
        if self._is_too_much and not was_too_much:
            self.on_too_much()

    @property
    def _is_too_much(self) -> bool:
        return self._count > MOST_UNASKED or self._size > MOST_UNASKED_BYTES


# For the connection that the current task reads; None if that reads one answer at a time.
UNASKED: ContextVar[UnaskedMessages | None] = ContextVar("UNASKED", default=None)


class _BoundedParser:
    """The SDK's message parser, preceded by our checks."""

    def __init__(self, sdk: Any) -> None:
        self._sdk = sdk

    def validate_json(self, data: str | bytes, **options: Any) -> Any:
        """Parse a message.

        Raises:
            ValueError: it is not valid.
        """
        text = data.decode(errors="replace") if isinstance(data, bytes) else data
        message = self._read(text, **options)
        unasked = UNASKED.get()
        if unasked is not None and isinstance(
            message, mcp_types.JSONRPCRequest | mcp_types.JSONRPCNotification
        ):
            unasked.take(len(text))
        return message

    def _read(self, text: str, **options: Any) -> Any:
        if not _may_be_large(text):
            try:
                return self._sdk.validate_json(text, **options)
            except ValueError:
                pass  # try again with the repaired message
        try:
            return self._sdk.validate_json(_repaired(text), **options)
        except ValueError:
            if (unasked := UNASKED.get()) is not None:
                unasked.take(len(text))
            raise


def install() -> None:
    """Replace the SDK's parser, as it has no parameter for that."""
    bounded = _BoundedParser(mcp_types.jsonrpc_message_adapter)
    modules: list[Any] = [mcp_types, mcp.client.streamable_http]
    for module in modules:
        module.jsonrpc_message_adapter = bounded


def _may_be_large(text: str) -> bool:
    """Return whether a message may exceed the limits; cheap, and never true for small ones."""
    return _separators(text) > MOST_PARTS or text.count("[") + text.count("{") > DEEPEST


def _separators(text: str) -> int:
    """Return roughly the number of values."""
    return text.count(",") + text.count("[") + text.count("{")


def _repaired(text: str) -> str:
    """Repair a message so that the SDK can parse it; if it cannot be, return an error answer.

    Raises:
        ValueError: the message is not an answer, so there is no id to answer with.
    """
    if _separators(_STRING.sub("", text)) > MOST_VALUES:  # too many even to parse
        return _refusal(_id_near(text), f"the answer {_TOO_MANY_VALUES}")
    try:
        message = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        return _refusal(_id_near(text), f"the answer cannot be read: {error}")
    if not isinstance(message, dict):
        raise ValueError("this is not a message")
    if excess := _excess(message):
        request_id = message.get("id")
        is_answer = "method" not in message and isinstance(request_id, int | str)
        return _refusal(json.dumps(request_id) if is_answer else None, f"the answer {excess}")
    return json.dumps(_without_surrogates(message)) if _SURROGATE.search(text) else text


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _id_near(text: str) -> str | None:
    """Guess the id of a message that is not JSON."""
    if not text.lstrip().startswith("{") or '"method"' in text[:_NEAR]:
        return None
    found = _ID.search(text[:_NEAR]) or _ID.search(text[-_NEAR:])
    return found and found[1]


def _refusal(request_id: str | None, reason: str) -> str:
    if request_id is None:
        raise ValueError(reason)
    error = json.dumps({"code": _REFUSED, "message": reason})
    return f'{{"jsonrpc": "2.0", "id": {request_id}, "error": {error}}}'


def _excess(message: Any) -> str | None:
    parts = 0
    for depth, is_opaque in _walk(message):
        parts += not is_opaque
        if depth > DEEPEST:
            return f"is nested deeper than {DEEPEST} levels"
        if parts > MOST_PARTS:
            return f"has more than {MOST_PARTS:,} parts"
    return None


def _walk(message: Any) -> Iterator[tuple[int, bool]]:
    """Yield the depth of every value, and whether its content is opaque to the SDK."""
    left: list[Iterator[tuple[Any, bool]]] = [iter([(message, False)])]
    while left:
        value, is_opaque = next(left[-1], (None, None))
        if is_opaque is None:
            left.pop()
            continue
        yield len(left), is_opaque
        if isinstance(value, dict):
            left.append(iter([(part, is_opaque or key in _OPAQUE) for key, part in value.items()]))
        elif isinstance(value, list):
            left.append(iter([(part, is_opaque) for part in value]))


def _without_surrogates(value: Any) -> Any:
    """Replace lone surrogates: text with one cannot be sent or stored."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_surrogates(part) for part in value]
    return value
