"""Streamed replies, as server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from typing import Any

from sleipnir.scheduler.runs.recording import Finish
from sleipnir.worker.llm.client import ReplyTooLarge
from sleipnir.worker.llm.provider.answer import (
    SAID,
    NotACompletion,
    calls_of,
    finish_of,
    text_of,
)
from sleipnir.worker.llm.provider.streamed_calls import StreamedCalls

# How the lines of an event begin; a comment with a colon.
_EVENT_LINES = (b"data:", b"event:", b"id:", b"retry:", b":")
_HEAD_BYTES = max(map(len, _EVENT_LINES))
_BLANK = b" \t\r\n"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def first_bytes(pieces: Iterator[bytes]) -> bytes:
    """Return the beginning of a body, without blanks before it; as much as `is_event` needs."""
    head = b""
    for piece in pieces:
        head = (head + piece).removeprefix(_BYTE_ORDER_MARK).lstrip(_BLANK)
        if len(head) >= _HEAD_BYTES:
            break
    return head


def is_event(head: bytes) -> bool:
    """Return whether a body that begins like this is a stream of events, whatever its type says."""
    return head.startswith(_EVENT_LINES)


def events(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the data of each event of a stream whose line ends are uniform."""
    data: list[bytes] = []
    for line in _lines(pieces):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data).decode("utf-8", "replace")
            data = []
    if data:
        yield b"\n".join(data).decode("utf-8", "replace")


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    begun: list[bytes] = []
    for piece in pieces:
        first, *others = piece.split(b"\n")
        begun.append(first)
        if others:
            yield b"".join(begun)
            yield from others[:-1]
            begun = [others[-1]]
    yield b"".join(begun)


class StreamedReply:
    """Assembles a reply from its pieces."""

    def __init__(self, limit_bytes: int) -> None:
        self.usage: Any = None
        self.tier: Any = None
        self.is_complete = False  # whether the model has said that it is finished
        self.finish: Finish | None = None
        self._limit_bytes = limit_bytes
        self._taken_bytes = 0
        self._texts: dict[str, StringIO] = {}
        self._calls = StreamedCalls(limit_bytes)

    def take(self, piece: Any) -> str:
        """Add a piece and return the text that it adds.

        Raises:
            NotACompletion: it is not a piece of a reply.
            ReplyTooLarge: the reply exceeds its limit.
        """
        if not isinstance(piece, dict):
            raise NotACompletion(piece)
        self.usage = piece.get("usage") or self.usage
        self.tier = piece.get("service_tier") or self.tier
        choice = _first_choice(piece)
        if choice is None:
            return ""
        self.is_complete = self.is_complete or bool(choice.get("finish_reason"))
        self.finish = finish_of(choice) or self.finish
        delta = choice.get("delta") or {}
        if not isinstance(delta, dict):
            raise NotACompletion(piece)
        return self._add(delta)

    def message(self) -> dict[str, Any]:
        """Return the message so far, in the form of one that was not streamed."""
        said: dict[str, Any] = {name: text.getvalue() for name, text in self._texts.items()}
        if calls := self._calls.all():
            said["tool_calls"] = calls
        return said

    def _add(self, delta: Mapping[str, Any]) -> str:
        for name in SAID:
            if delta.get(name):
                text = text_of(delta[name])
                self._count(text)
                self._texts.setdefault(name, StringIO()).write(text)
        for call in calls_of(delta):
            self._count(self._calls.add(call))
        return text_of(delta.get("content") or "")

    def _count(self, text: str) -> None:
        self._taken_bytes += len(text.encode(errors="replace"))
        if self._taken_bytes > self._limit_bytes:
            raise ReplyTooLarge(self._limit_bytes)


def _first_choice(piece: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the first of a model's choices; None in pieces about the reply as a whole."""
    choices = piece.get("choices") or []
    if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
        raise NotACompletion(piece)
    return next((choice for choice in choices if not choice.get("index")), None)
