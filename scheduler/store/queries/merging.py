"""Many sorted indexes read as one list: those of all partitions, or of several conditions.

An entry is passed on once no index can have one that comes before it. So each index gives a few
entries at first, and only those that ran out above the end of the page are asked for more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import NamedTuple, TypeAlias

from sleipnir.records import dataclass
from sleipnir.scheduler.store.queries.cursors import Position

# What each index gives at first, besides its share of a page.
_EACH_AT_LEAST = 3


class RangeRequest(NamedTuple):
    """What is wanted of one index: up to `most` entries after `after` in the list's order."""

    key: str
    after: Position | None
    most: int


class RangeAnswer(NamedTuple):
    """What an index gave: entries in the list's order, one at least unless it has `ended`."""

    entries: Sequence[Position]
    ended: bool


Reader: TypeAlias = Callable[[Sequence[RangeRequest]], Sequence[RangeAnswer]]


@dataclass(slots=True)
class _Source:
    key: str
    last: Position | None  # that was read of it
    ended: bool = False
    entries: list[Position] = field(default_factory=list)  # read and not passed on yet


class MergedList:
    """The entries of several indexes in order, each once.

    Args:
        read: reads several indexes in one round trip.
        after: where to begin; None: at the list's beginning.
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
        """Return the next entries; fewer than `count` only at the list's end."""
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
        """Whether an index may have more entries above the page's end than were read of it."""
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
