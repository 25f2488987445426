"""Queries of batches: a list by last activity, and the counts of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.store.cluster.groups import tags_of
from sleipnir.scheduler.store.keys import batch_key
from sleipnir.scheduler.store.queries.cursors import Position, to_cursor
from sleipnir.scheduler.store.queries.indexes import Page, Span, find_page, position_of
from sleipnir.scheduler.store.queries.totals import TotalQueries

_REMOVED = (*map(str, sorted(FINAL)), "tokens", "cost", "unpriced")
_REMOVED_FIELDS = tuple(f"removed {field}" for field in _REMOVED)
# As in lua/lib/indexes.lua: ends of a batch's runs that each partition keeps, and for how long.
ENDS_KEPT = 20
ENDS_KEPT_MS = 3_600_000


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
    removed: int  # ended runs that are no longer stored
    tokens: int  # of ended runs, removed ones included, like the cost
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

    @property
    def is_finished(self) -> bool:
        """Whether all lines of its input have ended; if that is not known, all its runs."""
        is_over = not self.open and not self.waiting
        return is_over and self.ended + self.removed >= (self.lines or 1)


class BatchQueries(TotalQueries):
    """Queries of batches; each costs one read per partition, however many runs a batch has."""

    def list_batches(
        self, limit: int, cursor: str | None = None, *, prefix: str = ""
    ) -> Page[BatchRow]:
        """Return batches by last activity, newest first.

        Args:
            prefix: only those whose names begin with it.

        Raises:
            BadCursor: the cursor does not belong to a list of batches.
        """
        after = position_of("batches", cursor)
        began_ms = self.now_ms()
        positions: dict[str, Position] = {}

        def choose(entries: Sequence[Position]) -> list[str | None]:
            # Each partition has its own entry for a batch. The first one read is the newest,
            # unless that was on an earlier page; a running batch moves on while this reads.
            first = [
                entry
                for entry in entries
                if entry.name.startswith(prefix)
                and positions.setdefault(entry.name, entry) is entry
            ]
            earlier = self._before(after, [entry.name for entry in first])
            return [
                entry.name if entry in first and entry.name not in earlier else None
                for entry in entries
            ]

        found = find_page("batches", self._merged(["batches"], Span(), after), limit, choose)
        names, following = found.entries, found.next
        # Of each batch every partition may have an entry.
        searched = replace(found.searched, entries=len(positions))
        if after is None:
            # What moved to the front may have left a place that was not read yet.
            moved = [name for name in self._active_since(began_ms) if name.startswith(prefix)]
            names = list(dict.fromkeys([*moved, *names]))
            if len(names) > limit:
                last = positions.get(names[limit - 1], Position(began_ms, names[limit - 1]))
                names, following = names[:limit], to_cursor("batches", last)
        rows = tuple(row for row in self.batch_rows(names) if row is not None)
        # Partitions count independently, so only a complete list has a total.
        total = len(rows) if cursor is None and following is None else None
        return Page(rows, following, searched, total, total)

    def batch_rows(self, names: Sequence[str]) -> list[BatchRow | None]:
        """Return the state of batches; None for those of which nothing is stored."""
        tallies, activities = self.batch_tallies(names), self._last_activities(names)
        tags = tags_of(self._redis)
        with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hmget(batch_key(name), "agent", "lines")
            for name in names:
                for tag in tags:
                    pipe.hmget(f"{tag}{batch_key(name)}", _REMOVED_FIELDS)
            answers = iter(pipe.execute())
        announced = [next(answers) for _ in names]
        removed = [_sums([next(answers) for _ in tags]) for _ in names]
        return [
            _row(name, tally, activities.get(name), agent, lines, counts)
            if tally or lines is not None or any(counts.values())
            else None
            for name, tally, (agent, lines), counts in zip(
                names, tallies, announced, removed, strict=True
            )
        ]

    def last_ends(self, batch: str) -> list[int]:
        """Return when the last runs of a batch ended within an hour, newest first, ms.

        Each partition keeps its last 20, so that no end is missing after the oldest one of a
        partition that has so many; earlier ones are left out.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zrange(f"{partition}:batchends:{batch}", 0, -1, withscores=True)
            kept = [[int(at) for _, at in ends] for ends in pipe.execute()]
        complete_since = max((ends[0] for ends in kept if len(ends) >= ENDS_KEPT), default=0)
        since = max(complete_since, self.now_ms() - ENDS_KEPT_MS)
        return sorted((at for ends in kept for at in ends if at >= since), reverse=True)

    def spread_ids(self, batch: str, most: int) -> list[str]:
        """Return the ids of a batch's runs; of more than `most`, of every nth one."""
        keys = [f"{partition}:batch:{batch}" for partition in ALL_PARTITIONS]
        with self._redis.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.zcard(key)
            counts = pipe.execute()
        every = max(1, -(-sum(counts) // most))
        before = 0
        with self._redis.pipeline(transaction=False) as pipe:
            for key, count in zip(keys, counts, strict=True):
                if every == 1:
                    pipe.zrange(key, 0, -1)
                else:
                    for rank in range(-before % every, count, every):
                        pipe.zrange(key, rank, rank)
                before += count
            return [run_id for found in pipe.execute() for run_id in found]

    def _before(self, after: Position | None, names: Sequence[str]) -> set[str]:
        """Return those of the batches that are listed before a position."""
        if after is None:
            return set()
        active = self._last_activities(names)
        return {name for name in names if Position(active.get(name, 0), name) >= after}

    def _active_since(self, since_ms: int) -> list[str]:
        """Return the batches that were active since an instant, newest first."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zrevrangebyscore(f"{partition}:batches", "+inf", since_ms, withscores=True)
            found = [entry for entries in pipe.execute() for entry in entries]
        return [name for name, _ in sorted(found, key=lambda entry: entry[1], reverse=True)]

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


def _sums(removed: Sequence[Sequence[str | None]]) -> dict[str, int]:
    """Return what the groups counted of removed runs."""
    columns = zip(_REMOVED, *removed, strict=True)
    return {field: sum(int(count or 0) for count in counts) for field, *counts in columns}


def _row(
    name: str,
    tally: Mapping[str, int],
    active: int | None,
    agent: str | None,
    lines: str | None,
    removed: Mapping[str, int],
) -> BatchRow:
    unpriced = tally.get("unpriced", 0) + removed["unpriced"]
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
        removed=sum(removed[str(status)] for status in FINAL),
        tokens=tally.get("tokens", 0) + removed["tokens"],
        cost_usd=None if unpriced else (tally.get("cost", 0) + removed["cost"]) / 1e9,
    )
