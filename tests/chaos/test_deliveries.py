"""Messages come twice, at once, in any order, late, or not at all; and some are no messages."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.store.keys import LANES, QUEUE, lane_key
from sleipnir.worker.delivery.run_visit import run_visit
from tests.support.engine import Engine
from tests.support.fleet import SETTINGS, Load, under_fire
from tests.support.invariants import assert_consistent
from tests.support.tour import Tour
from tests.support.workers import Workers


@pytest.mark.parametrize(
    "rounds", [pytest.param(2, id="short"), pytest.param(40, id="long", marks=pytest.mark.chaos)]
)
def test_what_counts_once_counts_once(
    rounds: int, engine: Engine, rng: random.Random, tmp_path: Path
) -> None:
    delivered: list[tuple[str, str, str]] = []
    lost = 0
    with ThreadPoolExecutor(4) as threads:
        for number in range(rounds):
            tour = Tour(engine, tmp_path / str(number))
            while not tour.is_over():
                taken = list(iter(engine.pop, None))
                fresh = [message for message in taken if lost and rng.random() > 0.1]
                lost += len(taken) - len(fresh)
                stale = rng.sample(delivered, min(3, len(delivered)))
                messages = [*fresh * 3, *stale]
                rng.shuffle(messages)
                for done in [threads.submit(run_visit, engine.services, *m) for m in messages]:
                    done.result()
                delivered += fresh
                if not engine.queued():
                    tour.answer()
                    engine.clock.move(6)
                    engine.tick()
            tour.check()

    assert len(delivered) > 20 * rounds
    assert lost >= rounds
    assert_consistent(engine.redis, runs=3 * rounds)


GARBAGE = ("", "x", "{}", "[]", '{"body": "e30="}', '{"body": 1, "headers": {}}', "\x00" * 9)


@pytest.mark.parametrize(
    ("runs", "faults"),
    [
        pytest.param(10, 7, id="short"),
        pytest.param(200, 70, id="long", marks=pytest.mark.chaos),
    ],
)
def test_garbage_in_the_queue_stops_nobody(
    runs: int, faults: int, workers: Workers, redis_client: redis.Redis, rng: random.Random
) -> None:
    worker = workers.start("--scheduler", **SETTINGS)
    load = Load(workers, runs, 5)

    def throw_in() -> None:
        push = rng.choice([redis_client.lpush, redis_client.rpush])
        push(lane_key(QUEUE, rng.randrange(LANES)), rng.choice(GARBAGE))

    under_fire(load.is_over, [throw_in], every_s=0.1, at_least=faults, timeout_s=100)

    load.check()
    assert worker.is_running()
    assert_consistent(redis_client, runs=runs)
