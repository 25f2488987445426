"""What bounds schedules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.schedules.model import MOST_SCHEDULES
from sleipnir.scheduler.service.scheduler import Scheduler
from tests.support.engine import Engine

GRAPH = "start: done\nnodes: {done: {type: end, output: done}}"


@pytest.fixture(autouse=True)
def none_left(engine: Engine) -> Iterator[None]:
    yield
    engine.redis.flushall()


def test_there_is_a_greatest_number_of_schedules(engine: Engine) -> None:
    engine.write("tested", GRAPH)
    for number in range(MOST_SCHEDULES):
        partition = ALL_PARTITIONS[number % len(ALL_PARTITIONS)]
        engine.redis.zadd(f"{partition}:schedules", {f"s{number}": 1})

    with pytest.raises(SubmissionRefused, match="10,000 schedules"):
        engine.client.schedules.create("more", {"agent": "tested", "every": "1h"})


def test_a_schedule_takes_at_most_a_kibibyte(engine: Engine) -> None:
    engine.write("tested", GRAPH)
    made = engine.client.schedules.create(
        "every-day-at-nine",
        {"agent": "tested", "cron": "0 9 * * 1-5", "timezone": "Europe/Berlin", "prompt": "x"},
    )
    (key,) = engine.redis.keys(f"*:schedule:{made.name}")

    taken = engine.redis.memory_usage(key, samples=0)

    assert taken <= 1024


def test_schedules_due_at_once_do_not_hold_up_other_timers(engine: Engine) -> None:
    engine.write("tested", GRAPH)
    for number in range(40):
        wanted = {"agent": "tested", "cron": "0 9 * * *"}
        instant = engine.client.schedules.create(f"s{number}", wanted).next_ms
    lost = engine.client.submit("tested")
    engine.pop()  # the message is lost, and is due to be sent again
    assert instant is not None
    engine.clock.ms = instant

    a_look_s = [0.25]

    def slow() -> float:
        """A clock that moves with each look, as if firing took long."""
        engine.clock.move(a_look_s[0])
        return engine.clock.passed_s()

    scheduler = Scheduler(engine.store, monotonic=slow)
    is_busy = scheduler.run_once()

    queued = [run_id for run_id, _, _ in engine.queued()]
    assert is_busy
    assert lost in queued
    assert len(queued) < 41
    a_look_s[0] = 0
    while scheduler.run_once():
        pass
    assert len(engine.queued()) == 41
