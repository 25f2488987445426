"""Rates and slots that hold for all workers together, however their calls come and go."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

import pytest
import redis

from sleipnir.scheduler.batch.limit_wait import limit_wait
from sleipnir.scheduler.limits.records import Delay, Denied, Grant, ProviderFailure, Used
from sleipnir.scheduler.limits.rules import Limit
from sleipnir.scheduler.process.backoff import PROVIDER
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from tests.support.engine import Clock
from tests.support.limits import MINUTE_MS, Simulation, granted, reservation, waits
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until

HOLDER = """
import signal, sys
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.scheduler.limits.rules import Limit
from tests.support.limits import granted, reservation

limiter = RateLimiter(connect(sys.argv[1]), lease_s=1.0)
granted(limiter.reserve(reservation(1, Limit("p", concurrency=1))))
print("held", flush=True)
signal.pause()
"""


@pytest.fixture
def limiter(redis_client: redis.Redis, clock: Clock) -> RateLimiter:
    return RateLimiter(redis_client, RedisClock(redis_client, clock))


@pytest.fixture
def simulate(limiter: RateLimiter, clock: Clock) -> Callable[..., Simulation]:
    def start(seed: int, **options: Any) -> Simulation:
        return Simulation(limiter, clock, Random(seed), **options)

    return start


def scattered(random: Random, count: int, within_ms: int, *limits: Limit, **fields: Any) -> Any:
    """Arrivals of calls, half of them all at once."""
    return [
        (random.randint(0, within_ms) if number % 2 else 0, reservation(number, *limits, **fields))
        for number in range(count)
    ]


# ---- rates


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("rate", [3, 60, 500])
def test_no_minute_has_more_requests_than_allowed(
    simulate: Callable[..., Simulation], rate: int, seed: int
) -> None:
    limit = Limit("p", requests_per_minute=rate)
    simulation = simulate(seed, late_ms=1_500)

    simulation.run(scattered(simulation.random, 2 * rate + 20, 90_000, limit))

    assert len(simulation.started) == 2 * rate + 20
    assert simulation.most_in_a_minute() <= rate


def test_a_rate_is_used_up_while_calls_wait(
    simulate: Callable[..., Simulation], clock: Clock
) -> None:
    simulation = simulate(1, late_ms=500)
    began_at = clock.ms

    simulation.run((0, reservation(n, Limit("p", requests_per_minute=300))) for n in range(900))

    assert simulation.started[-1][0] - began_at <= 1.05 * 3 * MINUTE_MS


def test_a_call_that_waits_comes_back_once(simulate: Callable[..., Simulation]) -> None:
    simulation = simulate(2, late_ms=1_900)

    simulation.run((0, reservation(n, Limit("p", requests_per_minute=300))) for n in range(1_000))

    assert set(simulation.returns.values()) == {1}


def test_calls_go_in_the_order_they_came(simulate: Callable[..., Simulation]) -> None:
    simulation = simulate(3)

    simulation.run((n, reservation(n, Limit("p", requests_per_minute=60))) for n in range(100))

    assert [each.call for _, each in simulation.started] == sorted(
        each.call for _, each in simulation.started
    )


def test_after_a_standstill_the_rate_still_holds_and_nobody_is_sent_to_the_end(
    simulate: Callable[..., Simulation], limiter: RateLimiter, clock: Clock
) -> None:
    limit = Limit("p", requests_per_minute=60)
    for number in range(300):
        limiter.reserve(reservation(number, limit))
    clock.move(180)
    simulation = simulate(4)

    simulation.run((0, reservation(number, limit)) for number in range(300))

    assert simulation.most_in_a_minute() <= 60
    assert max(simulation.returns.values()) <= 2


def test_calls_that_another_model_replies_to_leave_no_gaps_in_a_rate(
    limiter: RateLimiter, clock: Clock
) -> None:
    limit = Limit("p", requests_per_minute=60)

    went = 0
    for number in range(600):
        clock.move(0.5)
        verdict = limiter.reserve(reservation(number, limit, next_model=True))
        went += isinstance(verdict, Grant)

    assert 5 * 57 <= went <= 5 * 60


def test_calls_that_another_model_replies_to_wait_for_no_place(limiter: RateLimiter) -> None:
    limit = Limit("p", concurrency=1)
    first = granted(limiter.reserve(reservation(1, limit)))
    for number in range(2, 20):
        waits(limiter.reserve(reservation(number, limit, next_model=True)))

    _, woken = limiter.release(first, Used(took_s=1.0))

    assert woken == []
    granted(limiter.reserve(reservation(20, limit, next_model=True)))


@pytest.mark.parametrize("size", [1, 700, 1_000, 60_000])
def test_no_minute_has_more_tokens_than_allowed(
    simulate: Callable[..., Simulation], size: int
) -> None:
    limit = Limit("p", tokens_per_minute=20_000)
    simulation = simulate(5, late_ms=1_500)

    simulation.run(scattered(simulation.random, 50, 90_000, limit, tokens=size))

    # A call that is larger than the limit has a minute for itself.
    assert simulation.most_in_a_minute("tokens") <= max(20_000, size)


@pytest.mark.parametrize("seed", range(4))
def test_tokens_of_calls_of_all_sizes_exceed_a_minute_by_less_than_one_call(
    simulate: Callable[..., Simulation], seed: int
) -> None:
    simulation = simulate(seed, late_ms=1_500)
    limit = Limit("p", tokens_per_minute=20_000)
    sizes = [simulation.random.randint(1, 4_000) for _ in range(150)]

    simulation.run((0, reservation(n, limit, tokens=size)) for n, size in enumerate(sizes))

    assert simulation.most_in_a_minute("tokens") < 24_000


def test_what_was_reserved_and_not_used_is_given_back(
    simulate: Callable[..., Simulation], clock: Clock
) -> None:
    limit = Limit("p", tokens_per_minute=10_000)
    calls = [reservation(number, limit, tokens=5_000) for number in range(20)]
    simulation = simulate(6, used={each.call: 500 for each in calls})
    began_at = clock.ms

    simulation.run((number * 3_000, each) for number, each in enumerate(calls))

    # By what they reserve, twenty calls would take ten minutes.
    assert simulation.started[-1][0] - began_at < 2 * MINUTE_MS
    assert simulation.most_in_a_minute("tokens") <= 10_000


def test_every_limit_that_applies_must_allow_a_call(
    simulate: Callable[..., Simulation],
) -> None:
    provider, slow = Limit("p", requests_per_minute=120), Limit("p:m", requests_per_minute=30)
    simulation = simulate(7)
    calls = [reservation(n, provider, *([slow] if n % 2 else [])) for n in range(120)]

    simulation.run((0, each) for each in calls)

    assert simulation.most_in_a_minute() <= 120
    simulation.started = [(at, each) for at, each in simulation.started if slow in each.limits]
    assert simulation.most_in_a_minute() <= 30


def test_one_model_s_queue_does_not_hold_up_another_model(
    limiter: RateLimiter, clock: Clock
) -> None:
    provider, slow = Limit("p", requests_per_minute=6_000), Limit("p:m", requests_per_minute=10)
    for number in range(500):
        limiter.reserve(reservation(number, provider, slow))
    clock.move(5)

    other = limiter.reserve(reservation(999, provider))

    assert isinstance(other, Grant)


def test_an_instant_is_the_same_for_whoever_asks_again(limiter: RateLimiter, clock: Clock) -> None:
    limit = Limit("p", requests_per_minute=1)
    granted(limiter.reserve(reservation(1, limit)))
    first = waits(limiter.reserve(reservation(2, limit)))
    waits(limiter.reserve(reservation(3, limit)))
    clock.move(10)

    again = waits(limiter.reserve(reservation(2, limit)))

    assert again.delay_s == pytest.approx(first.delay_s - 10)


def test_threads_get_an_instant_each(redis_server: RedisServer, redis_client: redis.Redis) -> None:
    clients = [connect(redis_server.url) for _ in range(4)]
    limiters = [RateLimiter(c, RedisClock(c, lambda: 1_700_000_000_000)) for c in clients]
    limit = Limit("p", requests_per_minute=600, concurrency=1_000)

    with ThreadPoolExecutor(8) as threads:
        verdicts = list(
            threads.map(lambda n: limiters[n % 4].reserve(reservation(n, limit)), range(400))
        )

    delays = [verdict.delay_s for verdict in verdicts if isinstance(verdict, Delay)]
    assert len(set(delays)) == len(delays) >= 370


# ---- refusals of the provider


def test_refusals_lower_a_rate_and_it_recovers(limiter: RateLimiter, clock: Clock) -> None:
    limit = Limit("p", requests_per_minute=60)
    throttled = ProviderFailure("throttled", "p", "HTTP 429: slow down", PROVIDER)

    def apart() -> float:
        clock.move(10)
        limiter.reserve(reservation(clock.ms, limit))
        delays = []
        for number in range(4):
            verdict = limiter.reserve(reservation(clock.ms + number + 1, limit))
            delays += [verdict.delay_s] if isinstance(verdict, Delay) else []
        clock.move(10)
        return delays[-1] - delays[-2]

    before = apart()
    limiter.release(Grant(reservation(1, limit)), Used(), throttled)
    lowered = apart()
    clock.move(200)

    assert before == pytest.approx(62 / 60, abs=0.01)
    assert lowered > 1.5 * before
    assert apart() == pytest.approx(before, abs=0.01)


def test_calls_that_are_refused_together_count_once(limiter: RateLimiter, clock: Clock) -> None:
    limit = Limit("p", concurrency=40)
    throttled = ProviderFailure("throttled", "p", "HTTP 429: slow down", PROVIDER)

    for number in range(20):
        limiter.release(Grant(reservation(number, limit)), Used(), throttled)

    verdicts = [limiter.reserve(reservation(100 + number, limit)) for number in range(40)]
    assert sum(isinstance(verdict, Grant) for verdict in verdicts) == 20


# ---- slots


@pytest.mark.parametrize("seed", range(3))
def test_there_are_never_more_calls_at_once_than_allowed(
    simulate: Callable[..., Simulation], seed: int
) -> None:
    simulation = simulate(seed, late_ms=300, took_ms=2_000)

    simulation.run(scattered(simulation.random, 60, 5_000, Limit("p", concurrency=5)))

    assert len(simulation.started) == 60
    assert simulation.most_at_once == 5


def test_places_are_handed_on_at_once_and_in_order(
    simulate: Callable[..., Simulation], clock: Clock
) -> None:
    simulation = simulate(8, took_ms=2_000)
    began_at = clock.ms

    simulation.run((n, reservation(n, Limit("p", concurrency=2))) for n in range(30))

    assert clock.ms - began_at <= 15 * 2_000 + 1_000
    assert [each.call for _, each in simulation.started] == sorted(
        each.call for _, each in simulation.started
    )


def test_a_newcomer_does_not_take_the_place_of_one_whose_turn_it_is(limiter: RateLimiter) -> None:
    limit = Limit("p", concurrency=1)
    first = granted(limiter.reserve(reservation(1, limit)))
    waits(limiter.reserve(reservation(2, limit)))
    _, woken = limiter.release(first, Used())

    newcomer = limiter.reserve(reservation(3, limit))

    assert woken == [reservation(2, limit).call]
    assert isinstance(newcomer, Delay)
    assert isinstance(limiter.reserve(reservation(2, limit)), Grant)


def test_who_does_not_come_when_it_is_its_turn_loses_it(limiter: RateLimiter, clock: Clock) -> None:
    limit = Limit("p", concurrency=1)
    first = granted(limiter.reserve(reservation(1, limit)))
    waits(limiter.reserve(reservation(2, limit)))
    limiter.release(first, Used())
    clock.move(6)

    assert isinstance(limiter.reserve(reservation(3, limit)), Grant)


def test_a_renewed_place_is_kept(limiter: RateLimiter, clock: Clock) -> None:
    limit = Limit("p", concurrency=1)
    held = granted(limiter.reserve(reservation(1, limit)))
    clock.move(14)
    limiter.renew([held])
    clock.move(14)

    assert isinstance(limiter.reserve(reservation(2, limit)), Delay)
    clock.move(2)
    assert isinstance(limiter.reserve(reservation(3, limit)), Grant)


def test_a_killed_worker_s_place_is_free_within_the_lease(
    redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", HOLDER, redis_server.url]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.kill()
    limiter, numbers = RateLimiter(redis_client), itertools.count(2)

    def newcomer() -> Grant | Delay | Denied:
        return limiter.reserve(reservation(next(numbers), Limit("p", concurrency=1)))

    assert isinstance(newcomer(), Delay)
    wait_until(lambda: isinstance(newcomer(), Grant), "the place is free", 3)


def test_a_batch_knows_which_limit_its_calls_wait_for(limiter: RateLimiter) -> None:
    one_a_minute = Limit("p", requests_per_minute=1)
    granted(limiter.reserve(reservation(1, one_a_minute)))
    waits(limiter.reserve(reservation(2, one_a_minute)))
    ours = f"{2:016x}"

    found = limit_wait(limiter.queries, ours.__eq__)

    assert found is not None
    assert found.name == "p"
    assert found.until_ms > limiter.queries.now_ms() - limiter.queries.ahead_ms()
    assert limit_wait(limiter.queries, lambda run_id: run_id != ours) is None
