"""The case `schedules`: how soon all runs have begun that are due in the same minute."""

from __future__ import annotations

from collections.abc import Iterator
from time import gmtime, perf_counter

from sleipnir.scheduler.process.periodic import pause
from sleipnir.worker.bench.arena import Arena
from sleipnir.worker.bench.rows import Row, Sample, row

SCHEDULES = 10_000
_MAKING_S = 0.02  # for each, until they are due
_SCHEDULERS = 2
_LOOK_S = 1.0
_MOST_S = 30.0  # from the instant until all have fired
_GIVEN_UP_S = 300.0


def schedules(arena: Arena, rounds: int) -> Iterator[Row]:
    """Runs of schedules whose instant is the same, fired by two schedulers without a worker.

    The time is from that instant until the last one has fired, up to a second more.
    """
    arena.stop_workers()
    due_s = arena.client.queries.now_ms() / 1000 + SCHEDULES * _MAKING_S
    due_s += 60 - due_s % 60
    at = gmtime(due_s)
    wanted = {"agent": "linear-4", "cron": f"{at.tm_min} {at.tm_hour} * * *"}
    for number in range(SCHEDULES):
        arena.client.schedules.create(f"bench-{number}", wanted)
    for _ in range(_SCHEDULERS):
        arena.begin_scheduler()
    early_s = due_s - arena.client.queries.now_ms() / 1000
    if early_s < 0:
        raise RuntimeError(f"{SCHEDULES:,} schedules could not be made before they were due")
    pause(early_s)
    fired = Sample(_until_all_fired(arena), 0.0)
    yield row(f"{SCHEDULES:,} schedules of one minute", "run", SCHEDULES, [fired], None).within(
        1000 * _MOST_S / SCHEDULES
    )


def _until_all_fired(arena: Arena) -> float:
    """Return after how many seconds all schedules have fired."""
    began = perf_counter()
    while (passed_s := perf_counter() - began) < _GIVEN_UP_S:
        if sum(schedule.fired for schedule in arena.client.schedules.list()) == SCHEDULES:
            return perf_counter() - began
        pause(_LOOK_S)
    raise RuntimeError(f"not all schedules have fired after {passed_s:.0f} s")
