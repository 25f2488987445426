"""Sorted sets of all partitions read as one list, and the cost bounds of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import Generic, TypeVar

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.queries.base import Queries
from sleipnir.scheduler.store.queries.cursors import ListKind, Position, from_cursor, to_cursor
from sleipnir.scheduler.store.queries.merging import MergedList, RangeAnswer, RangeRequest

# Bounds of one request; beyond them it returns what it has, and how far it came.
MOST_LOOKED_AT = 50_000
MOST_SECONDS = 1.5
_LARGEST_CHUNK = 500
_SMALLEST_CHUNK = 10

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Span:
    """The instants in ms that a list covers, and the end from which it is read."""

    since: int | None = None
    until: int | None = None  # exclusive
    newest_first: bool = True

    def scores(self) -> tuple[str, str]:
        """The least and greatest score in Redis' notation."""
        least = "-inf" if self.since is None else str(self.since)
        greatest = "+inf" if self.until is None else f"({self.until}"
        return least, greatest


@dataclass(frozen=True, slots=True)
class Searched:
    """How far a search got."""

    back_to: int | None  # ms: everything up to this instant was examined; None: nothing was
    entries: int  # number of entries examined
    complete: bool  # False: the page is not full only because the search hit its bounds


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """A page of a list."""

    entries: tuple[T, ...]
    next: str | None  # the cursor of the next page; None after the last
    searched: Searched
    total: int | None  # entries of the whole list; None: unknown without reading all of it
    at_most: int | None  # upper bound of the total, if known


@dataclass(frozen=True, slots=True)
class SearchedPage(Generic[T]):
    """A page found by a search."""

    entries: list[T]
    next: str | None
    searched: Searched


class IndexQueries(Queries):
    """Queries of sorted sets that every partition has."""

    def _count(self, indexes: Sequence[str], span: Span) -> int:
        """Return the number of entries in these sorted sets over all partitions."""
        return sum(self._counts([indexes], span))

    def _counts(self, groups: Sequence[Sequence[str]], span: Span) -> list[int]:
        """Return the same for several groups of sorted sets, in one round trip."""
        bounded = span.since is not None or span.until is not None
        with self._redis.pipeline(transaction=False) as pipe:
            for indexes in groups:
                for key in _keys(indexes):
                    if bounded:
                        pipe.zcount(key, *span.scores())
                    else:
                        pipe.zcard(key)
            counts = iter(pipe.execute())
        return [sum(int(next(counts)) for _ in _keys(indexes)) for indexes in groups]

    def _merged(
        self, indexes: Sequence[str], span: Span, after: Position | None = None
    ) -> MergedList:
        """Return the entries of these sorted sets over all partitions as one list."""

        def read(readings: Sequence[RangeRequest]) -> list[RangeAnswer]:
            return self._read(readings, span)

        return MergedList(_keys(indexes), read, after=after, newest_first=span.newest_first)

    def _read(self, readings: Sequence[RangeRequest], span: Span) -> list[RangeAnswer]:
        given: dict[int, RangeAnswer] = {}
        counts = {at: reading.most + 1 for at, reading in enumerate(readings)}
        while counts:
            for at, answer in zip(counts, self._ranges(readings, span, counts), strict=True):
                given[at] = _beyond(readings[at].after, answer, counts[at], span.newest_first)
            # More entries share one instant than were requested: the position is further down.
            counts = {
                at: 4 * count
                for at, count in counts.items()
                if not given[at].entries and not given[at].ended
            }
        return [given[at] for at in range(len(readings))]

    def _ranges(
        self, readings: Sequence[RangeRequest], span: Span, counts: dict[int, int]
    ) -> list[list[tuple[str, float]]]:
        least, greatest = span.scores()
        with self._redis.pipeline(transaction=False) as pipe:
            for at, count in counts.items():
                key, after, _ = readings[at]
                if span.newest_first:
                    top = greatest if after is None else after.instant
                    pipe.zrevrangebyscore(key, top, least, 0, count, withscores=True)
                else:
                    bottom = least if after is None else after.instant
                    pipe.zrangebyscore(key, bottom, greatest, 0, count, withscores=True)
            return list(pipe.execute())


def _keys(indexes: Sequence[str]) -> list[str]:
    return [f"{partition}:{index}" for index in indexes for partition in ALL_PARTITIONS]


def _beyond(
    after: Position | None, answer: Sequence[tuple[str, float]], count: int, newest_first: bool
) -> RangeAnswer:
    entries = [Position(int(score), name) for name, score in answer]
    if after is not None:
        entries = [entry for entry in entries if (entry < after if newest_first else entry > after)]
    return RangeAnswer(entries, ended=len(answer) < count)


def find_page(
    kind: ListKind,
    merged: MergedList,
    limit: int,
    choose: Callable[[Sequence[Position]], Sequence[T | None]],
) -> SearchedPage[T]:
    """Return up to `limit` chosen entries, within the bounds of one request.

    Args:
        choose: returns what to show of each entry, None if it does not match.
    """
    began = monotonic()
    found: list[tuple[Position, T]] = []
    looked_at, last, size = 0, None, limit + 1

    def give(after: Position | None, *, complete: bool = True) -> SearchedPage[T]:
        cursor = to_cursor(kind, after) if after is not None else None
        searched = Searched(last.instant if last else None, looked_at, complete)
        return SearchedPage([shown for _, shown in found], cursor, searched)

    while chunk := merged.take(wanted := min(size, _LARGEST_CHUNK)):
        for entry, chosen in zip(chunk, choose(chunk), strict=True):
            if chosen is not None and len(found) == limit:
                return give(found[-1][0])
            looked_at, last = looked_at + 1, entry
            if chosen is not None:
                found.append((entry, chosen))
        if len(chunk) < wanted:
            break
        in_vain, spent_s = looked_at - len(found), monotonic() - began
        # As many as can be looked at in the time that is left, if it goes on like this.
        affordable = int(looked_at * (MOST_SECONDS / max(spent_s, 1e-6) - 1))
        is_search = in_vain > len(found)
        if in_vain >= MOST_LOOKED_AT or (is_search and affordable < _SMALLEST_CHUNK):
            return give(last, complete=len(found) == limit)
        size = min(2 * size, affordable) if is_search else 2 * size
    return give(None)


def position_of(kind: ListKind, cursor: str | None) -> Position | None:
    """Return the position where a page begins.

    Raises:
        BadCursor: the cursor does not belong to this kind of list.
    """
    return None if cursor is None else from_cursor(kind, cursor)
