"""Redis' clock is set, or Redis is away for long: limits and pauses are as long as they were."""

from __future__ import annotations

import logging

import pytest
import redis

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.limits.rules import Limit
from sleipnir.scheduler.service.scheduler import Scheduler
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.scheduler.store.run_store import RunStore
from tests.support.engine import Clock, Engine
from tests.support.invariants import assert_consistent
from tests.support.limits import reservation, waits
from tests.support.runs import (
    CHILD,
    RUN,
    a_run,
    begin,
    finish,
    messages,
    spawn,
    status,
)

HOUR_S = 3600


class SlowClock(Clock):
    """Redis lets its next callers wait, each for so many seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.waits_s: list[float] = []

    def __call__(self) -> int:
        if self.waits_s:
            self.move(self.waits_s.pop(0))
        return super().__call__()


@pytest.fixture
def clock() -> SlowClock:
    return SlowClock()


ASKS = """
settings: {timeout: 60}
start: s
nodes:
  s: {type: input, question: "well?", next: z}
  z: {type: end}
"""


@pytest.fixture
def parked(engine: Engine) -> str:
    """A run with a limit of a minute that waits for a person, known to the scheduler."""
    run_id = engine.finish(ASKS).run_id
    engine.tick()
    return run_id


def deadline(engine: Engine, run_id: str) -> int:
    found = engine.run(run_id).deadline
    assert found is not None
    return found


@pytest.mark.parametrize("hours", [1, -1])
def test_a_run_has_its_time_whatever_the_clock_is_set_to(
    engine: Engine, parked: str, hours: int
) -> None:
    engine.clock.move(30)
    engine.clock.set_by(hours * HOUR_S)

    engine.tick()
    engine.clock.move(29)
    engine.tick()
    before = engine.run(parked).status
    assert_consistent(engine.redis, runs=1)
    engine.clock.move(1)
    engine.tick()

    assert (before, engine.run(parked).status) == ("waiting", "timed_out")


@pytest.mark.parametrize("hours", [1, -1])
def test_a_lease_ends_when_it_would_have(engine: Engine, hours: int) -> None:
    engine.store.runs.submit(a_run())
    engine.tick()
    begin(engine, "1/s")
    messages(engine)
    engine.clock.set_by(hours * HOUR_S)

    engine.tick()
    engine.clock.move(14)
    engine.tick()
    before = messages(engine)
    engine.clock.move(1)
    engine.tick()

    assert (before, messages(engine)) == ([], ["1/s"])


@pytest.mark.parametrize("hours", [1, -1])
def test_a_node_is_not_older_for_it(engine: Engine, hours: int) -> None:
    engine.store.runs.submit(a_run())
    engine.tick()
    lease = begin(engine, "1/s")
    engine.store.parking.postpone(lease, 20)
    engine.clock.set_by(hours * HOUR_S)
    engine.tick()
    engine.clock.move(20)
    engine.tick()

    begun = engine.store.visits.begin(lease, None)

    assert begun.age_s == 20


def test_a_child_run_has_its_time(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    spawn(engine, "1/s", timeout_s=300)
    engine.tick()
    engine.clock.set_by(HOUR_S)

    engine.tick()
    engine.clock.move(299)
    engine.tick()
    before = status(engine, CHILD)
    engine.clock.move(1)
    engine.tick()

    assert (before, status(engine, CHILD)) == ("queued", "cancelled")


def test_of_many_schedulers_one_moves_what_waits(
    engine: Engine, parked: str, caplog: pytest.LogCaptureFixture
) -> None:
    others = [engine.another_scheduler() for _ in range(3)]
    for scheduler in others:
        scheduler.run_once()
    due = deadline(engine, parked)
    engine.clock.set_by(HOUR_S)

    with caplog.at_level(logging.WARNING):
        for scheduler in (others[0], engine.scheduler, *others[1:]):
            scheduler.run_once()

    assert deadline(engine, parked) == due + HOUR_S * 1000
    assert len(caplog.messages) == 1
    assert "the clock of Redis was set: moved all time limits" in caplog.text
    assert "+3600 s" in caplog.text


@pytest.mark.parametrize("hours", [1, -1])
def test_what_began_since_is_not_moved(engine: Engine, hours: int) -> None:
    # As workers do that are faster than the scheduler.
    engine.tick()
    engine.clock.set_by(hours * HOUR_S)
    engine.clock.move(0.4)
    run_id = engine.finish(ASKS).run_id
    due = deadline(engine, run_id)
    engine.store.runs.submit(a_run())
    engine.store.parking.postpone(begin(engine, "1/s"), 30)
    messages(engine)

    engine.tick()
    engine.clock.move(30)
    engine.tick()

    assert deadline(engine, run_id) == due
    assert messages(engine) == ["1/s"]


def test_small_corrections_of_the_clock_move_nothing(engine: Engine, parked: str) -> None:
    due = deadline(engine, parked)

    for _ in range(10):
        engine.clock.set_by(4)
        engine.tick()

    assert deadline(engine, parked) == due


@pytest.mark.parametrize(("away_s", "moved_s"), [(29, 0), (31, 31), (HOUR_S, HOUR_S)])
def test_only_time_in_which_redis_was_away_for_long_does_not_count(
    engine: Engine, clock: SlowClock, parked: str, away_s: int, moved_s: int
) -> None:
    due = deadline(engine, parked)
    clock.waits_s = [away_s]

    engine.tick()

    assert deadline(engine, parked) == due + moved_s * 1000


def test_a_sweep_that_had_to_wait_acts_on_nothing(
    engine: Engine, clock: SlowClock, parked: str
) -> None:
    clock.waits_s = [0, HOUR_S]  # the time is read, and then Redis goes away

    engine.tick()
    engine.tick()

    assert engine.run(parked).status == "waiting"


def test_workers_renew_their_leases_before_those_are_judged(
    engine: Engine, clock: SlowClock
) -> None:
    engine.store.runs.submit(a_run())
    engine.tick()
    lease = begin(engine, "1/s")
    messages(engine)
    clock.waits_s = [20]  # the lease has lapsed, and nothing is moved for so little

    engine.tick()
    clock.move(2.9)
    engine.tick()
    engine.store.visits.renew([lease])
    clock.move(0.1)
    engine.tick()

    assert messages(engine) == []
    clock.move(15)
    engine.tick()
    assert messages(engine) == ["1/s"]


def test_no_other_timer_waits_for_renewals(engine: Engine, clock: SlowClock, parked: str) -> None:
    engine.clock.move(58)
    clock.waits_s = [2]

    engine.tick()

    assert engine.run(parked).status == "timed_out"


def test_time_without_a_scheduler_counts(engine: Engine, parked: str) -> None:
    engine.scheduler.request_stop()
    engine.scheduler.run()
    engine.clock.move(60)

    engine.another_scheduler().run_once()

    assert engine.run(parked).status == "timed_out"


def test_a_scheduler_that_starts_learns_that_redis_was_away(
    redis_client: redis.Redis,
) -> None:
    store = RunStore(redis_client, Settings(), DirectDispatcher())
    store.runs.submit(a_run(timeout_s=60))
    clock = Clock()
    clock.ms = store.clock.now_ms()
    # As if the last scheduler had ended a day before this Redis was started.
    redis_client.set("{p01}:swept", store.clock.started_ms() - 24 * HOUR_S * 1000)
    redis_client.zadd("{p01}:timers", {f"deadline {RUN}": clock.ms - 1})
    began = {"status": "running", "started": 1, "deadline": clock.ms - 1}
    redis_client.hset(run_key("run", RUN), mapping=began)

    Scheduler(store).run_once()

    due = int(str(redis_client.hget(run_key("run", RUN), "deadline")))
    assert due == pytest.approx(clock.ms + 24 * HOUR_S * 1000, abs=2000)
    redis_client.flushall()


def test_who_locked_a_partition_before_the_clock_was_set_back_does_not_keep_it(
    engine: Engine,
) -> None:
    engine.redis.set("{p01}:owner", "dead", px=HOUR_S * 1000)
    engine.redis.set("{p02}:owner", "alive", px=5000)

    mine = engine.store.partitions.sweep("me", ttl_s=5, limit=10)

    assert "{p01}" in mine
    assert "{p02}" not in mine


def test_finished_runs_are_kept_for_as_long(engine: Engine) -> None:
    engine.store.runs.submit(a_run())
    finish(engine, RUN)
    engine.tick()
    engine.clock.set_by(30 * 24 * HOUR_S)

    engine.tick()

    assert status(engine) == "succeeded"


@pytest.mark.parametrize("hours", [1, -1])
def test_a_model_call_waits_as_long_as_it_would_have(engine: Engine, hours: int) -> None:
    limiter = RateLimiter(engine.redis, engine.store.clock)
    slow = Limit("p", requests_per_minute=2)
    engine.tick()
    for number in range(4):
        verdict = limiter.reserve(reservation(number, slow))
    delay_s = waits(verdict).delay_s
    engine.clock.move(1)

    engine.clock.set_by(hours * HOUR_S)
    engine.tick()

    assert waits(limiter.reserve(reservation(3, slow))).delay_s == pytest.approx(delay_s - 1)
    assert waits(limiter.reserve(reservation(4, slow))).delay_s < 2 * delay_s


def test_many_schedulers_set_the_clock_of_the_limits_once(engine: Engine) -> None:
    limiter = RateLimiter(engine.redis, engine.store.clock)
    schedulers = [engine.another_scheduler() for _ in range(3)]
    for scheduler in schedulers:
        scheduler.run_once()
    before_ms = limiter.queries.now_ms()

    engine.clock.set_by(-HOUR_S)
    for scheduler in schedulers:
        scheduler.run_once()

    assert limiter.queries.now_ms() == before_ms
