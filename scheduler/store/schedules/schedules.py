"""Schedules: one typed method per transition, and reading them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS, partition_of
from sleipnir.scheduler.runs.model import NewRun
from sleipnir.scheduler.runs.schedules.ids import place_of, prefix_of
from sleipnir.scheduler.runs.schedules.model import Overlap, Schedule
from sleipnir.scheduler.store.keys import run_key, schedule_key, scheduled_key, schedules_key
from sleipnir.scheduler.store.runs import Runs
from sleipnir.scheduler.store.schedules.records import (
    definition_text,
    schedule_of,
    standing_text,
)
from sleipnir.scheduler.store.transitions import Transitions

# Most engines have no schedules.
with lazy_imports():
    from sleipnir.scheduler.runs.schedules import instants

_NO_RUN = ("", "", "", "", "", "", "", 0)


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """A schedule as it was read."""

    schedule: Schedule
    prefix: str  # the first two digits of the ids of its runs, which choose its partition
    run: str  # what it starts, as `template.to_text` has it
    failed: str | None  # a run of it that failed, after which it is to be paused


class Schedules:
    """Transitions of schedules."""

    def __init__(self, store: Transitions) -> None:
        self._store = store
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = store.client
        self._starting = Runs(store).to_submit

    def put(self, schedule: Schedule, run: str, *, is_new: bool) -> None:
        """Make a schedule, or replace what was read of it.

        Args:
            run: what it starts, as `template.to_text` has it.

        Raises:
            ScheduleExists: there is one of that name.
            ScheduleChanged: it is another one meanwhile.
        """
        self._call(
            "put_schedule",
            prefix_of(schedule.name, place_of(schedule)),
            schedule.name,
            "" if is_new else str(schedule.revision),
            _due(schedule),
            schedule.digest,
            definition_text(schedule),
            standing_text(schedule),
            run,
            "1" if schedule.pause_on_failure else "0",
            "1" if schedule.buffered else "0",
        )

    def step(self, before: StoredSchedule, then: Schedule, run: NewRun | None) -> bool:
        """Start at most one run, and note how a schedule stands then; return if a run was made.

        Raises:
            ScheduleChanged: it has changed since `before` was read.
            NotOver: the run before it has not ended.
        """
        was = before.schedule
        answer = self._call(
            "step_schedule",
            before.prefix,
            run.run_id if run else "",
            was.name,
            str(was.revision),
            _due(then),
            standing_text(then),
            "1" if then.buffered else "0",
            "1" if then.overlap == Overlap.ALLOW_ALL else "0",
            then.skipped - was.skipped,
            then.missed - was.missed,
            was.agent,
            was.given.get("webhook") or "",
            *(self._starting(run) if run else _NO_RUN),
        )
        return bool(answer.created)

    def remove(self, stored: StoredSchedule) -> bool:
        """Remove a schedule; return False if it was gone. Its runs go on."""
        name = stored.schedule.name
        return bool(self._call("remove_schedule", stored.prefix, name).removed)

    def _call(self, script: str, prefix: str, *arguments: str | int) -> Any:
        transition, clock = self._store.transition(script), self._store.clock.argument()
        return transition(partition_of(prefix), *arguments, clock=clock)

    # ---- reading

    def read(self, name: str) -> StoredSchedule | None:
        """Return a schedule; None if there is none of that name."""
        partition = partition_of(prefix_of(name, None))
        if stored := self._redis.hgetall(schedule_key(partition, name)):
            return _stored(name, stored)
        # One that continues a session is where the session is.
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hgetall(schedule_key(partition, name))
            return next((_stored(name, found) for found in pipe.execute() if found), None)

    def names(self) -> list[str]:
        """Return the names of all schedules, sorted."""
        return sorted(name for names in self._names() for name in names)

    def _names(self) -> Sequence[Sequence[str]]:
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zrange(schedules_key(partition), 0, -1)
            answers: Sequence[Sequence[str]] = pipe.execute()
            return answers

    def read_all(self) -> list[StoredSchedule]:
        """Return all schedules, by name."""
        named = [
            (partition, name)
            for partition, names in zip(ALL_PARTITIONS, self._names(), strict=True)
            for name in names
        ]
        with self._redis.pipeline(transaction=False) as pipe:
            for partition, name in named:
                pipe.hgetall(schedule_key(partition, name))
            answers = pipe.execute()
        found = [
            _stored(name, stored)
            for (_, name), stored in zip(named, answers, strict=True)
            if stored
        ]
        return sorted(found, key=lambda each: each.schedule.name)

    def is_open(self, run_ids: Sequence[str]) -> list[bool]:
        """Return for each run whether it exists and has not ended."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), "status", "ended")
            return [bool(status) and not ended for status, ended in pipe.execute()]

    def counts(self) -> Mapping[str, int]:
        """Return how many instants of all schedules, removed ones too, were skipped and missed."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hgetall(scheduled_key(partition))
            answers = pipe.execute()
        names = ("skipped", "missed")
        return {name: sum(int(each.get(name, 0)) for each in answers) for name in names}

    def oldest_due_ms(self) -> float:
        """Return when the schedule that is due first is or was due; infinite if none is."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zrange(schedules_key(partition), 0, 0, withscores=True)
            firsts = [first for answer in pipe.execute() for first in answer]
        return min((float(first[1]) for first in firsts), default=float("inf"))


def _due(schedule: Schedule) -> str:
    """Return when there is something to be done next, as transitions take it."""
    if schedule.next_ms is None:
        return ""
    return str(instants.due_at(schedule.name, schedule.timing, schedule.next_ms))


def _stored(name: str, stored: Mapping[str, str]) -> StoredSchedule:
    schedule = schedule_of(name, stored)
    prefix = prefix_of(name, place_of(schedule))
    return StoredSchedule(schedule, prefix, stored["run"], stored.get("failed"))
