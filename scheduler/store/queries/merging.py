"""Merges many sorted indexes into one list: those of all partitions, or of several conditions.

An entry is returned once no index can have an earlier one. Each index is read a few entries at
a time; only those whose entries all belong to the page are read further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import NamedTuple, TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.store.queries.cursors import Position

# Entries first read of each index, besides its share of a page.
_EACH_AT_LEAST = 3


class RangeRequest(NamedTuple):
    """Requests up to `most` entries after `after`, in list order, of one index."""

    key: str
    after: Position | None
    most: int


class RangeAnswer(NamedTuple):
    """The answer of an index: entries in list order, at least one unless it has `ended`."""

    entries: Sequence[Position]
    ended: bool


Reader: TypeAlias = Callable[[Sequence[RangeRequest]], Sequence[RangeAnswer]]


@dataclass(slots=True)
class _Source:
    key: str
    last: Position | None  # the last one read
    ended: bool = False
    entries: list[Position] = field(default_factory=list)  # read and not returned yet


class MergedList:
    """The entries of several indexes in order, without duplicates.

    Args:
        read: reads several indexes in one round trip.
        after: the position to begin after; None: at the beginning of the list.
    """

    def __init__(
        self,
        keys: Sequence[str],
        read: Reader,
        *,
        after: Position | None = None,
        newest_first: bool = True,
    ) -> None:
        self._read = read
        self._newest_first = newest_first
        self._sources = [_Source(key, after) for key in keys]

    def take(self, count: int) -> list[Position]:
        """Return the next entries; fewer than `count` only at the end of the list."""
        each = _EACH_AT_LEAST + -(-count // len(self._sources))
        while True:
            known = {entry for source in self._sources for entry in source.entries}
            page = sorted(known, reverse=self._newest_first)[:count]
            floor = page[-1] if len(page) == count else None
            short = [source for source in self._sources if self._is_short(source, floor)]
            if not short:
                self._drop(set(page))
                return page
            self._fill(short, min(each, count + 1))
            each *= 2

    def _is_short(self, source: _Source, floor: Position | None) -> bool:
        """Return whether an index may have unread entries that belong to the page."""
        if source.ended or floor is None or source.last is None:
            return not source.ended
        return source.last > floor if self._newest_first else source.last < floor

    def _fill(self, sources: Sequence[_Source], each: int) -> None:
        readings = [RangeRequest(source.key, source.last, each) for source in sources]
        for source, given in zip(sources, self._read(readings), strict=True):
            source.entries += given.entries
            source.ended = given.ended
            source.last = given.entries[-1] if given.entries else source.last

    def _drop(self, taken: set[Position]) -> None:
        for source in self._sources:
            source.entries = [entry for entry in source.entries if entry not in taken]
