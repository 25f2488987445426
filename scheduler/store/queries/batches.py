"""Batches: those there are by their last activity, and how each stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sleipnir.records import dataclass
from sleipnir.scheduler.store.keys import ALL_PARTITIONS, batch_key
from sleipnir.scheduler.store.queries.cursors import Position
from sleipnir.scheduler.store.queries.indexes import Page, Span, find_page, position_of
from sleipnir.scheduler.store.queries.totals import TotalQueries


@dataclass(frozen=True, slots=True)
class BatchRow:
    """How a batch stands."""

    name: str
    agent: str | None  # None if its runs were not submitted by `sleipnir batch`
    lines: int | None  # of its input, likewise
    last_activity: int | None  # ms; None before its first run
    open: int  # queued or running
    waiting: int  # for a person
    succeeded: int
    failed: int
    cancelled: int
    timed_out: int
    tokens: int  # of runs that are over, like the cost
    cost_usd: float | None  # None once any part has no known price

    @property
    def ended(self) -> int:
        return self.succeeded + self.unsuccessful

    @property
    def unsuccessful(self) -> int:
        return self.failed + self.cancelled + self.timed_out

    @property
    def runs(self) -> int:
        return self.open + self.waiting + self.ended


class BatchQueries(TotalQueries):
    """Reads of batches: as many as there are partitions for each, however many runs it has."""

    def list_batches(self, limit: int, cursor: str | None = None) -> Page[BatchRow]:
        """Batches by last activity, newest first.

        Raises:
            BadCursor: the cursor is not one of a list of batches.
        """
        after = position_of("batches", cursor)
        span = Span()
        known: dict[str, int] = {}

        def choose(entries: Sequence[Position]) -> list[str | None]:
            # Each partition has an entry of its own for a batch; the newest one is its place.
            missing = {entry.name for entry in entries} - known.keys()
            known.update(self._last_activities(sorted(missing)))
            return [
                entry.name if known.get(entry.name) == entry.instant else None for entry in entries
            ]

        found = find_page("batches", self._merged(["batches"], span, after), limit, choose)
        rows = tuple(row for row in self.batch_rows(found.entries) if row is not None)
        # Each partition counts its own, so that only a whole list is counted.
        total = len(rows) if cursor is None and found.next is None else None
        return Page(rows, found.next, found.searched, total, total)

    def batch_rows(self, names: Sequence[str]) -> list[BatchRow | None]:
        """Return how batches stand; None for those of which nothing is stored."""
        tallies, activities = self.batch_tallies(names), self._last_activities(names)
        with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hmget(batch_key(name), "agent", "lines")
            announced = pipe.execute()
        return [
            _row(name, tally, activities.get(name), agent, lines)
            if tally or lines is not None
            else None
            for name, tally, (agent, lines) in zip(names, tallies, announced, strict=True)
        ]

    def _last_activities(self, names: Sequence[str]) -> dict[str, int]:
        if not names:
            return {}
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zmscore(f"{partition}:batches", names)
            answers = pipe.execute()
        instants = zip(names, zip(*answers, strict=True), strict=True)
        return {
            name: int(max(at for at in found if at is not None))
            for name, found in instants
            if any(at is not None for at in found)
        }


def _row(
    name: str, tally: Mapping[str, int], active: int | None, agent: str | None, lines: str | None
) -> BatchRow:
    return BatchRow(
        name=name,
        agent=agent,
        lines=None if lines is None else int(lines),
        last_activity=active,
        open=tally.get("open", 0),
        waiting=tally.get("waiting", 0),
        succeeded=tally.get("succeeded", 0),
        failed=tally.get("failed", 0),
        cancelled=tally.get("cancelled", 0),
        timed_out=tally.get("timed_out", 0),
        tokens=tally.get("tokens", 0),
        cost_usd=None if tally.get("unpriced") else tally.get("cost", 0) / 1e9,
    )
