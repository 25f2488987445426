"""Providers that are unavailable, throttle or have no quota: who waits, for how long, in turn."""

from __future__ import annotations

import pytest
import redis

from sleipnir.scheduler.limits.records import Delay, Denied, Grant, ProviderFailure, Used
from sleipnir.scheduler.process.backoff import PROVIDER
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from tests.support.engine import Clock
from tests.support.limits import UNAVAILABLE, granted, reservation, waits

MAX_WAIT_S = 3_600.0


@pytest.fixture
def limiter(redis_client: redis.Redis, clock: Clock) -> RateLimiter:
    return RateLimiter(redis_client, RedisClock(redis_client, clock))


def fail(
    limiter: RateLimiter, number: int, failure: ProviderFailure = UNAVAILABLE, **fields: float
) -> Delay | None:
    """The call of that number goes and fails."""
    call = reservation(number, max_wait_s=fields.get("max_wait_s", MAX_WAIT_S))
    return limiter.release(Grant(call), Used(), failure)[0]


def test_a_failed_call_waits_until_the_pause_is_over(limiter: RateLimiter, clock: Clock) -> None:
    waiting = fail(limiter, 1)

    assert waiting is not None
    assert (waiting.delay_s, waiting.name, waiting.detail) == (1.0, "p", "Connection refused")
    assert limiter.notices().pauses == {"p"}


def test_pauses_grow_while_nobody_answers(limiter: RateLimiter, clock: Clock) -> None:
    delays = []
    for _ in range(9):
        waiting = fail(limiter, 1)
        assert waiting is not None
        delays.append(waiting.delay_s)
        clock.move(waiting.delay_s)
        granted(limiter.reserve(reservation(1, max_wait_s=MAX_WAIT_S)))

    assert delays == [1, 2, 4, 8, 16, 32, 60, 60, 60]


def test_calls_that_fail_together_make_one_pause(limiter: RateLimiter, clock: Clock) -> None:
    delays = [waiting.delay_s for n in range(5) if (waiting := fail(limiter, n))]

    assert delays == pytest.approx([1.0, 1.01, 1.02, 1.03, 1.04])


def test_after_a_pause_one_call_tries_for_all(limiter: RateLimiter, clock: Clock) -> None:
    fail(limiter, 1)
    waits(limiter.reserve(reservation(2, max_wait_s=MAX_WAIT_S)))
    clock.move(1.5)

    probe = limiter.reserve(reservation(2, max_wait_s=MAX_WAIT_S))
    other = limiter.reserve(reservation(1, max_wait_s=MAX_WAIT_S))

    assert isinstance(probe, Grant)
    assert waits(other).delay_s >= 1.0


def test_when_the_try_succeeds_everybody_goes_on(limiter: RateLimiter, clock: Clock) -> None:
    fail(limiter, 1)
    clock.move(1.5)
    probe = granted(limiter.reserve(reservation(2, max_wait_s=MAX_WAIT_S)))

    limiter.release(probe, Used())

    assert limiter.notices().pauses == frozenset()
    assert all(
        isinstance(limiter.reserve(reservation(n, max_wait_s=MAX_WAIT_S)), Grant)
        for n in range(3, 9)
    )


def test_a_try_whose_worker_died_is_made_by_another_call(
    limiter: RateLimiter, clock: Clock
) -> None:
    fail(limiter, 1)
    clock.move(1.5)
    granted(limiter.reserve(reservation(2, max_wait_s=MAX_WAIT_S)))

    clock.move(31)

    assert isinstance(limiter.reserve(reservation(3, max_wait_s=MAX_WAIT_S)), Grant)


def test_a_hundred_calls_come_back_one_after_the_other(limiter: RateLimiter, clock: Clock) -> None:
    fail(limiter, 0)

    delays = [
        waits(limiter.reserve(reservation(n, max_wait_s=MAX_WAIT_S))).delay_s for n in range(1, 101)
    ]

    assert len(set(delays)) == 100
    assert max(delays) == pytest.approx(2.0)


def test_the_max_wait_counts_from_the_first_failure_over_all_waits(
    limiter: RateLimiter, clock: Clock
) -> None:
    waited = 0.0
    while (waiting := fail(limiter, 1, max_wait_s=10.0)) is not None:
        waited += waiting.delay_s
        clock.move(waiting.delay_s)
        granted(limiter.reserve(reservation(1, max_wait_s=10.0)))

    assert waited == pytest.approx(10.0)


def test_without_a_max_wait_nobody_waits_for_a_provider(limiter: RateLimiter) -> None:
    assert fail(limiter, 1, max_wait_s=0.0) is None
    assert isinstance(limiter.reserve(reservation(2)), Grant)


def test_a_call_that_has_another_model_to_ask_does_not_wait(limiter: RateLimiter) -> None:
    fail(limiter, 1)

    verdict = limiter.reserve(reservation(2, next_model=True))

    assert isinstance(verdict, Denied)
    assert (verdict.name, verdict.detail) == ("p", "Connection refused")


def test_what_the_server_asks_for_holds_for_everybody(limiter: RateLimiter, clock: Clock) -> None:
    fail(
        limiter,
        1,
        ProviderFailure("throttled", "p:m", "HTTP 429: slow down", PROVIDER, retry_after_s=20),
    )

    waiting = waits(limiter.reserve(reservation(2, max_wait_s=MAX_WAIT_S)))

    assert waiting.delay_s == pytest.approx(20, abs=0.02)
    clock.move(21)
    assert isinstance(limiter.reserve(reservation(3, max_wait_s=MAX_WAIT_S)), Grant)
    assert isinstance(limiter.reserve(reservation(4, max_wait_s=MAX_WAIT_S)), Grant)


def test_a_pause_by_command_holds_even_without_a_max_wait(
    limiter: RateLimiter, redis_client: redis.Redis
) -> None:
    limiter.pause("p", "maintenance")

    waiting = waits(limiter.reserve(reservation(1)))

    assert (waiting.why, waiting.detail) == ("command", "maintenance")
    assert redis_client.hget("{limits}:people", f"{1:016x}") == "p"
    assert limiter.resume("p")
    assert limiter.wake("p", 10) == [reservation(1).call]
    assert isinstance(limiter.reserve(reservation(1)), Grant)


def test_nothing_is_resumed_twice(limiter: RateLimiter) -> None:
    limiter.pause("p", "maintenance")

    assert (limiter.resume("p"), limiter.resume("p")) == (True, False)
