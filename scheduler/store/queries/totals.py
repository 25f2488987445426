"""Counts of runs, as far as indexes and sums give them without reading records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.model import FINAL, Status
from sleipnir.scheduler.runs.spending import Spent
from sleipnir.scheduler.store.figures.by_time import DAY_MS, SpendingByTime
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.store.queries.indexes import IndexQueries, Span

# Upper bounds of the duration buckets, s, as in lua/lib/listed.lua.
_DURATIONS = ("1", "5", "30", "120", "600", "3600", "86400", "inf")
# Queued and running runs are counted together, as `open`, in the sums and here.
_OPEN = frozenset({Status.QUEUED, Status.RUNNING})
_INDEXED = ("runs", "open", "waiting", "failed", "cancelled", "timed_out")
# What the sums of batches and these counts share.
_COUNTED = ("open", "waiting", "succeeded", "failed", "cancelled", "timed_out")

# Open runs of a partition whose status is read to tell queued from running ones.
_MOST_SAMPLED = 32

ByStatus = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class OpenRuns:
    """How many root runs are queued and how many run."""

    queued: int
    running: int
    is_exact: bool  # False: estimated from a random sample


class TotalQueries(IndexQueries):
    """Queries of counts; each costs one read per partition, however many runs there are."""

    def _total(self, wanted: RunFilter, counted: int | None) -> int | None:
        """Return how many runs match; None if only their records could tell.

        Args:
            counted: the number of entries of indexes that contain exactly the matching runs.
        """
        if counted is not None:
            return counted
        if wanted.is_bounded_in_time or wanted.labels or wanted.children or wanted.is_searched:
            return None
        if wanted.batch is None:
            known = self._of_agents(wanted.agents) if wanted.agents else self._of_all()
        elif not wanted.agents:
            known = self.batch_tallies([wanted.batch])[0]
        else:
            return None
        return _sum_of(known, wanted.statuses)

    def counts_by_status(self, wanted: RunFilter) -> tuple[ByStatus, bool]:
        """Return the number of runs by status, and whether that counts all runs.

        Only agents alone or a batch alone have counts of their own. `open` are queued or running.
        """
        if wanted.is_bounded_in_time or wanted.labels or wanted.children:
            return self._of_all(), True
        if wanted.batch is None:
            return (self._of_agents(wanted.agents) if wanted.agents else self._of_all()), False
        if wanted.agents:
            return self._of_all(), True
        known = self.batch_tallies([wanted.batch])[0]
        return {status: known.get(status, 0) for status in _COUNTED}, False

    def all_counts(self) -> ByStatus:
        """Return the number of root runs by status; `open` are queued or running."""
        return self._of_all()

    def open_runs(self) -> OpenRuns:
        """Return how many root runs are queued and how many run, estimated if they are many.

        No index tells them apart. So statuses are read, of at most 32 runs of each partition; a
        partition with more counts as its sample, rounded to two digits in the sum.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zcard(f"{partition}:open")
                pipe.zrandmember(f"{partition}:open", _MOST_SAMPLED)
            answers = pipe.execute()
        sizes, samples = answers[::2], answers[1::2]
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in (run_id for sample in samples for run_id in sample or ()):
                pipe.hget(run_key("run", run_id), "status")
            statuses = iter(pipe.execute())
        found = dict.fromkeys(map(str, Status), 0.0)
        for size, sample in zip(sizes, samples, strict=True):
            for _ in sample or ():
                if status := next(statuses):  # else it was removed meanwhile
                    found[status] += size / len(sample)
        is_exact = max(sizes) <= _MOST_SAMPLED
        queued, running = (found[status] for status in (Status.QUEUED, Status.RUNNING))
        if is_exact:
            return OpenRuns(round(queued), round(running), is_exact)
        return OpenRuns(int(float(f"{queued:.1e}")), int(float(f"{running:.1e}")), is_exact)

    def _of_all(self) -> ByStatus:
        counts = self._counts([[index] for index in _INDEXED], Span())
        found = dict(zip(_INDEXED, counts, strict=True))
        runs, unfinished = found.pop("runs"), found["open"]
        ended = sum(found[status] for status in ("failed", "cancelled", "timed_out"))
        return {
            **found,
            "open": unfinished - found["waiting"],
            "succeeded": runs - unfinished - ended,
        }

    def _of_agents(self, agents: Sequence[str]) -> ByStatus:
        """Return counts for these agents; open and waiting runs are counted together."""
        fields = [
            f"{status} {duration} {agent}"
            for agent in agents
            for status in sorted(FINAL)
            for duration in _DURATIONS
        ]
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hmget(f"{partition}:tally", fields)
            answers = pipe.execute()
        found = dict.fromkeys(map(str, FINAL), 0)
        for counts in answers:
            for field, count in zip(fields, counts, strict=True):
                found[field.partition(" ")[0]] += int(count or 0)
        runs = self._count([f"agent:{agent}" for agent in agents], Span())
        return {**found, "open and waiting": runs - sum(found.values())}

    def tally(self) -> dict[str, int]:
        """Return the sums over ended root runs, as described for `tally` in keys.py."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hgetall(f"{partition}:tally")
            return _add_up(pipe.execute())

    def spent_since(self, first_ms: int, now_ms: int) -> dict[str, Spent]:
        """Return what was spent on the days (UTC) of these instants and between, by root agent."""
        days = range(first_ms // DAY_MS, now_ms // DAY_MS + 1)
        return SpendingByTime(self._redis).total(days, ("agent",))

    def batch_tallies(self, batches: Sequence[str]) -> list[dict[str, int]]:
        """Return the counts of batches, summed over partitions."""
        with self._redis.pipeline(transaction=False) as pipe:
            for batch in batches:
                for partition in ALL_PARTITIONS:
                    pipe.hgetall(f"{partition}:batchtally:{batch}")
            answers = iter(pipe.execute())
        return [_add_up([next(answers) for _ in ALL_PARTITIONS]) for _ in batches]


def _add_up(hashes: Sequence[Mapping[str, str]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for fields in hashes:
        for name, count in fields.items():
            found[name] = found.get(name, 0) + int(count)
    return found


def _sum_of(known: ByStatus, statuses: frozenset[Status]) -> int | None:
    """Return the number of runs with these statuses; None if they are not counted separately."""
    wanted = {str(status) for status in statuses - _OPEN}
    if statuses & _OPEN:
        if not statuses >= _OPEN:
            return None
        wanted.add("open")
    if "open and waiting" in known and wanted & {"open", "waiting"}:
        if not wanted >= {"open", "waiting"}:
            return None
        wanted = wanted - {"open", "waiting"} | {"open and waiting"}
    return max(0, sum(known.get(name, 0) for name in wanted))
