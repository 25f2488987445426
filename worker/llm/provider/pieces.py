"""The pieces of a streamed reply, joined as they arrive to save memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from sleipnir.worker.llm.client import ReplyTooLarge
from sleipnir.worker.llm.provider.streamed_calls import StreamedCalls

# A piece takes some 4 kB for its one word, so this many are joined at a time.
_JOINED = 256
# Limit on pieces that cannot be joined, such as beginnings of calls; more is a flood.
_MOST = 20_000

_TEXTS = ("content", "reasoning_content", "refusal")


class Pieces:
    """litellm's pieces of a reply, in order.

    `also` is a list of the same pieces that litellm keeps for itself; it is joined as well.
    `calls` are the calls in them: litellm would join those that share an index; it would drop a
    refusal.
    """

    def __init__(self, limit_bytes: int, also: list[Any]) -> None:
        self.calls = StreamedCalls(limit_bytes)
        self.refusal = ""
        self._limit_bytes = limit_bytes
        self._lists: tuple[list[Any], list[Any]] = ([], also)
        self._settled = [0, 0]
        self._fresh = 0
        self._taken_bytes = 0

    @property
    def all(self) -> list[Any]:
        """All pieces, joined as far as possible."""
        return self._lists[0]

    def take(self, piece: Any) -> str:
        """Add a piece and return its text.

        Raises:
            ReplyTooLarge: the reply exceeds its limit.
        """
        self._lists[0].append(piece)
        delta = piece.choices[0].delta if piece.choices else None
        for call in getattr(delta, "tool_calls", None) or ():
            self.calls.add(call.model_dump(exclude_none=True, warnings=False))
        self.refusal += getattr(delta, "refusal", None) or ""
        self._taken_bytes += sum(len(text.encode(errors="replace")) for text in _texts(delta))
        self._fresh += 1
        if self._fresh == _JOINED:
            self._fresh = 0
            self._join()
        if self._taken_bytes > self._limit_bytes or len(self._lists[0]) > _MOST:
            raise ReplyTooLarge(self._limit_bytes)
        return getattr(delta, "content", None) or ""

    def _join(self) -> None:
        for which, pieces in enumerate(self._lists):
            settled = self._settled[which]
            pieces[settled:] = [
                joined
                for kind, group in groupby(pieces[settled:], _kind)
                for joined in _joined(kind, list(group))
            ]
            self._settled[which] = len(pieces)


def _texts(delta: Any) -> Iterator[str]:
    for name in _TEXTS:
        yield getattr(delta, name, None) or ""
    for call in getattr(delta, "tool_calls", None) or ():
        yield (call.function and call.function.arguments) or ""


def _kind(piece: Any) -> tuple[str, int] | None:
    """Return what a piece adds to: a text, or the arguments of a call; None if anything else."""
    if len(piece.choices) != 1 or piece.choices[0].finish_reason or getattr(piece, "usage", None):
        return None
    said = piece.choices[0].delta.model_dump(exclude_none=True)
    said.pop("role", None)
    if len(said) != 1:
        return None
    ((name, value),) = said.items()
    if name in _TEXTS and isinstance(value, str):
        return name, 0
    if name != "tool_calls" or len(value) != 1:
        return None
    (call,) = value
    only_arguments = not call.get("id") and call["function"].keys() == {"arguments"}
    return (name, call["index"]) if only_arguments else None


def _joined(kind: tuple[str, int] | None, pieces: Sequence[Any]) -> Sequence[Any]:
    if kind is None or len(pieces) == 1:
        return pieces
    name, _ = kind
    # A copy, as the other list holds the same objects.
    first = pieces[0].model_copy(deep=True)
    delta = first.choices[0].delta
    if name in _TEXTS:
        setattr(delta, name, "".join(getattr(piece.choices[0].delta, name) for piece in pieces))
    else:
        delta.tool_calls[0].function.arguments = "".join(
            piece.choices[0].delta.tool_calls[0].function.arguments for piece in pieces
        )
    return [first]
