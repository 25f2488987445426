"""Queries of batches: a list by last activity, and the counts of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sleipnir.records import dataclass
from sleipnir.scheduler.store.keys import ALL_PARTITIONS, batch_key
from sleipnir.scheduler.store.queries.cursors import Position
from sleipnir.scheduler.store.queries.indexes import Page, Span, find_page, position_of
from sleipnir.scheduler.store.queries.totals import TotalQueries


@dataclass(frozen=True, slots=True)
class BatchRow:
    """The state of a batch."""

    name: str
    agent: str | None  # None if its runs were not submitted by `sleipnir batch`
    lines: int | None  # number of lines of its input, likewise
    last_activity: int | None  # ms; None before its first run
    open: int  # queued or running
    waiting: int  # for a person
    succeeded: int
    failed: int
    cancelled: int
    timed_out: int
    tokens: int  # of ended runs, like the cost
    cost_usd: float | None  # None if any part has no known price

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
    """Queries of batches; each costs one read per partition, however many runs a batch has."""

    def list_batches(self, limit: int, cursor: str | None = None) -> Page[BatchRow]:
        """Return batches by last activity, newest first.

        Raises:
            BadCursor: the cursor does not belong to a list of batches.
        """
        after = position_of("batches", cursor)
        span = Span()
        known: dict[str, int] = {}

        def choose(entries: Sequence[Position]) -> list[str | None]:
            # Each partition has its own entry for a batch; the newest one decides its position.
            missing = {entry.name for entry in entries} - known.keys()
            known.update(self._last_activities(sorted(missing)))
            return [
                entry.name if known.get(entry.name) == entry.instant else None for entry in entries
            ]

        found = find_page("batches", self._merged(["batches"], span, after), limit, choose)
        rows = tuple(row for row in self.batch_rows(found.entries) if row is not None)
        # Partitions count independently, so only a complete list has a total.
        total = len(rows) if cursor is None and found.next is None else None
        return Page(rows, found.next, found.searched, total, total)

    def batch_rows(self, names: Sequence[str]) -> list[BatchRow | None]:
        """Return the state of batches; None for those of which nothing is stored."""
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
