"""Who is guilty of a worker's death: nobody, as long as workers are killed from outside."""

from __future__ import annotations

import random
from pathlib import Path
from time import monotonic

import pytest
import redis

from tests.support.fleet import SETTINGS, Fleet, Load, lose_workers, under_fire
from tests.support.invariants import assert_consistent
from tests.support.wait import wait_until
from tests.support.workers import Workers

LONG = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""
NODE_S = 8
# The default, not what other tests of kills need.
FORGIVING = {**SETTINGS, "max_deliveries": 20}


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_no_run_is_blamed_for_workers_that_others_kill(
    workers: Workers, redis_client: redis.Redis, rng: random.Random
) -> None:
    workers.start_scheduler(**FORGIVING)
    fleet = Fleet(workers, rng, 2, **FORGIVING)
    load = Load(workers, 300, 5)

    under_fire(load.is_over, [fleet.kill_one], every_s=3, at_least=8, timeout_s=300)

    load.check()
    assert_consistent(redis_client, runs=300)


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_those_that_lost_two_workers_run_side_by_side(
    workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    settings = {**FORGIVING, "concurrency": 32}
    workers.start_scheduler(**settings)
    begun = tmp_path / "begun"
    begun.touch()
    script = f"echo $$ >> begun; sleep {NODE_S}; echo {{}}"
    run_ids = [workers.submit(LONG, {"s.sh": script}, workdir=str(tmp_path)) for _ in range(30)]
    for tries in (30, 60):
        doomed = workers.start(**settings)
        wait_until(lambda: len(begun.read_text().split()) >= tries, f"{tries} tries", 60)  # noqa: B023
        doomed.kill()
    for _ in range(2):
        workers.start(**settings)
    began_at = monotonic()

    runs = [workers.client.wait(run_id) for run_id in run_ids]

    assert {str(run.status) for run in runs} == {"succeeded"}
    assert monotonic() - began_at < 30 * NODE_S * 2 / 3  # one at a time they would take all of it
    assert_consistent(redis_client, runs=30)


@pytest.mark.chaos
def test_a_node_that_freezes_its_own_process_is_found_guilty(
    workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    run_id = workers.submit(LONG, {"s.sh": "kill -STOP $PPID; sleep 60"}, workdir=str(tmp_path))
    lose_workers(redis_client, run_id, 2)
    workers.start("--scheduler", **FORGIVING)

    failure = workers.client.wait(run_id).failure

    assert failure is not None
    assert (failure.code, failure.node) == ("R022", "s")
    assert failure.message.endswith("twice in a row: it did not respond for 10 s")
    assert_consistent(redis_client, runs=1)
