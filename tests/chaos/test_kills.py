"""Workers, schedulers and Redis are killed while runs go on; every run comes out as it should."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
import redis

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Checkpoint
from sleipnir.scheduler.store.connection import connect
from tests.support.fleet import SETTINGS, Fleet, Load, under_fire
from tests.support.invariants import assert_consistent
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until
from tests.support.workers import Workers

# Idle workers look for messages again within this time of Redis' return.
BACK_S = 15

LIMITED = """
settings: {timeout: LIMIT}
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""


@dataclass(frozen=True)
class Size:
    """How much of a test: the short form is for every day, the long one for `make chaos`."""

    runs: int
    length: int  # visits of a run
    faults: int


def sizes(short: Size, long: Size) -> pytest.MarkDecorator:
    chaos = (pytest.mark.chaos, pytest.mark.timeout(400))
    return pytest.mark.parametrize(
        "size", [pytest.param(short, id="short"), pytest.param(long, id="long", marks=chaos)]
    )


def histories(workers: Workers, load: Load) -> list[list[Checkpoint]]:
    return [workers.queries.history(run_id) for run_id in load.run_ids]


@pytest.fixture
def own_redis(tmp_path: Path, own_directories: None) -> Iterator[RedisServer]:
    """A server that may be killed."""
    with RedisServer(tmp_path / "redis") as server:
        yield server


@pytest.fixture
def fleet_on_own_redis(own_redis: RedisServer, tmp_path: Path) -> Iterator[Workers]:
    with (
        connect(own_redis.url, retry_outage=True) as client,
        Workers(own_redis.url, client, tmp_path) as started,
    ):
        yield started


@sizes(Size(20, 5, 3), Size(1000, 12, 24))
def test_runs_survive_kills_of_workers_and_schedulers(
    size: Size, workers: Workers, redis_client: redis.Redis, rng: random.Random
) -> None:
    fleet = Fleet(workers, rng, 2)
    schedulers = [workers.start_scheduler()]

    def kill_scheduler() -> None:
        schedulers.pop().kill()
        schedulers.append(workers.start_scheduler())

    load = Load(workers, size.runs, size.length)
    faults = [fleet.kill_one, kill_scheduler, fleet.kill_one]

    injected = under_fire(load.is_over, faults, every_s=0.5, at_least=size.faults, timeout_s=300)

    load.check()
    assert fleet.kills >= injected * 2 // 3
    assert load.tries() <= size.runs + 8 * fleet.kills  # a kill costs what was in flight, no more
    assert_consistent(redis_client, runs=size.runs)


@sizes(Size(10, 4, 1), Size(300, 12, 8))
def test_runs_survive_kills_of_redis(
    size: Size, own_redis: RedisServer, fleet_on_own_redis: Workers, rng: random.Random
) -> None:
    workers = fleet_on_own_redis
    fleet = Fleet(workers, rng, 2, "--scheduler")
    load = Load(workers, size.runs, size.length)

    def kill_redis() -> None:
        own_redis.kill()
        down_until = monotonic() + rng.uniform(0, 1.5)
        wait_until(lambda: monotonic() > down_until, "Redis is down for a while")
        own_redis.start()
        before = load.visits()
        wait_until(lambda: load.is_over() or load.visits() > before, "work goes on", BACK_S)

    under_fire(load.is_over, [kill_redis], every_s=3, at_least=size.faults, timeout_s=300)

    load.check()
    assert all(worker.is_running() for worker in fleet.members)
    assert_consistent(workers.store.client, runs=size.runs)


@pytest.mark.chaos
@pytest.mark.parametrize("stop_scheduler", [False, True])
def test_time_without_redis_does_not_count_against_runs(
    stop_scheduler: bool, own_redis: RedisServer, fleet_on_own_redis: Workers
) -> None:
    workers = fleet_on_own_redis
    scheduler = workers.start_scheduler(**SETTINGS)
    workers.start(**SETTINGS)
    run_ids = {
        limit: workers.submit(LIMITED.replace("LIMIT", str(limit)), {"s.sh": "sleep 4"})
        for limit in (2, 15)
    }
    wait_until(lambda: all(workers.run(i).started_at for i in run_ids.values()), "both began")

    own_redis.kill()
    if stop_scheduler:
        scheduler.kill()
    back_at = monotonic() + 33
    wait_until(lambda: monotonic() > back_at, "Redis is away for long", 40)
    own_redis.start()
    if stop_scheduler:
        scheduler = workers.start_scheduler(**SETTINGS)

    ended = {limit: workers.client.wait(run_id).status for limit, run_id in run_ids.items()}

    assert ended == {2: "timed_out", 15: "succeeded"}
    assert "Redis was unreachable" in scheduler.log.read_text()
    assert_consistent(workers.store.client, runs=2)


@sizes(Size(20, 4, 1), Size(300, 10, 12))
def test_a_worker_that_stood_still_cannot_commit_what_others_took_over(
    size: Size, workers: Workers, redis_client: redis.Redis, rng: random.Random
) -> None:
    fleet = Fleet(workers, rng, 2, "--scheduler")
    load = Load(workers, size.runs, size.length)

    def suspend_one() -> None:
        suspended = fleet.choose()
        suspended.suspend()
        until = monotonic() + 2 * SETTINGS["lease_s"]
        wait_until(lambda: monotonic() > until, "twice a lease is over")
        suspended.resume()

    under_fire(load.is_over, [suspend_one], every_s=0.5, at_least=size.faults, timeout_s=300)

    load.check()
    assert all(worker.is_running() for worker in fleet.members)
    assert_consistent(redis_client, runs=size.runs)


@pytest.mark.parametrize(
    "failpoint",
    [
        "amid.execute:kill:2",
        *(
            pytest.param(f"{place}:kill:3", marks=pytest.mark.chaos)
            for place in ("before.begin", "after.begin", "before.advance", "after.advance")
        ),
    ],
)
def test_another_worker_takes_over_where_one_died(
    failpoint: str, workers: Workers, redis_client: redis.Redis
) -> None:
    doomed = workers.start(failpoint=failpoint, **SETTINGS)
    load = Load(workers, 5, 4)
    wait_until(lambda: not doomed.is_running(), "it has died")

    workers.start("--scheduler", **SETTINGS)

    wait_until(load.is_over, "the other one has done its work")
    load.check()
    assert_consistent(redis_client, runs=5)


def test_what_a_zombie_made_is_refused(workers: Workers, redis_client: redis.Redis) -> None:
    # It stands still with its results in hand, until others have done the work.
    zombie = workers.start(failpoint="after.execute:stop:1", **SETTINGS)
    load = Load(workers, 5, 4)
    wait_until(zombie.is_suspended, "it stands still")
    workers.start("--scheduler", **SETTINGS)
    wait_until(load.is_over, "the other one has done its work")
    before = histories(workers, load)

    zombie.resume()
    zombie.terminate()
    zombie.exit_code()

    assert histories(workers, load) == before
    load.check()
    assert_consistent(redis_client, runs=5)
