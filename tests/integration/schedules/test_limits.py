"""What bounds schedules."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.runs.schedules.model import MOST_SCHEDULES
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
