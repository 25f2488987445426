"""Budgets: what calls reserve is never overshot, and what happens at the end of one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
import redis

from sleipnir.scheduler.limits.records import Delay, Denied, Grant, ReplyCost, Reservation, Used
from sleipnir.scheduler.limits.rules import Budget, batch_budget
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from tests.support.engine import Clock
from tests.support.limits import budgeted, granted, waits
from tests.support.redis_server import RedisServer

DAY = ("day", Budget("day", usd=1.0, on_excess="fail"))
PAUSING = ("batch:b", Budget("batch", tokens=100, on_excess="pause"))


@pytest.fixture
def limiter(redis_client: redis.Redis, clock: Clock) -> RateLimiter:
    return RateLimiter(redis_client, RedisClock(redis_client, clock))


def test_what_is_spent_counts_not_what_was_reserved(limiter: RateLimiter) -> None:
    for number in range(9):
        call = granted(limiter.reserve(budgeted(number, DAY, worst_usd=0.2, worst_tokens=50)))
        limiter.release(call, Used(tokens=10, usd=0.1))

    refused = limiter.reserve(budgeted(10, DAY, worst_usd=0.2))

    assert limiter.queries.spent("day") == (pytest.approx(0.9), 90)
    assert isinstance(refused, Denied)
    assert isinstance(limiter.reserve(budgeted(11, DAY, worst_usd=0.1)), Grant)


def test_a_call_whose_answer_was_lost_counts_once(
    limiter: RateLimiter, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = granted(limiter.reserve(budgeted(1, DAY, worst_usd=0.2)))
    execute = redis_client.execute_command

    def losing_the_answer(*arguments: Any, **options: Any) -> Any:
        execute(*arguments, **options)
        return execute(*arguments, **options)  # as redis-py does then

    monkeypatch.setattr(redis_client, "execute_command", losing_the_answer)
    limiter.release(call, Used(tokens=10, usd=0.1))

    assert limiter.queries.spent("day") == (pytest.approx(0.1), 10)


def test_the_rest_that_others_have_reserved_is_waited_for(
    limiter: RateLimiter, clock: Clock
) -> None:
    first = granted(limiter.reserve(budgeted(1, DAY, worst_usd=0.8)))

    second = waits(limiter.reserve(budgeted(2, DAY, worst_usd=0.8)))
    limiter.release(first, Used(usd=0.1))
    clock.move(second.delay_s)

    assert second.why == "held"
    assert isinstance(limiter.reserve(budgeted(2, DAY, worst_usd=0.8)), Grant)


@pytest.mark.parametrize("seed", range(3))
def test_parallel_calls_never_reserve_more_than_there_is(
    redis_server: RedisServer, redis_client: redis.Redis, seed: int
) -> None:
    random = Random(seed)
    limiters = [RateLimiter(connect(redis_server.url)) for _ in range(4)]
    plans = [(number, random.uniform(0.01, 0.2)) for number in range(80)]

    def spend(plan: tuple[int, float]) -> float:
        number, worst = plan
        verdict = limiters[number % 4].reserve(budgeted(number, DAY, worst_usd=worst))
        if not isinstance(verdict, Grant):
            return 0.0
        limiters[number % 4].release(verdict, Used(usd=worst))
        return worst

    with ThreadPoolExecutor(8) as threads:
        spent = sum(threads.map(spend, plans))

    assert spent <= 1.0
    assert limiters[0].queries.spent("day")[0] == pytest.approx(spent)


OWN = ("batch:b", batch_budget(1.0))
# A reply of up to 16,000 tokens, which costs up to 1.6 USD, after a prompt of 0.1 USD.
LONG = ReplyCost(1_000, 1_024, prompt_usd=0.1, usd_per_token=0.0001)


def long_reply(number: int, *budgets: tuple[str, Budget]) -> Reservation:
    return budgeted(number, *budgets, worst_usd=1.7, worst_tokens=17_000, reply=LONG)


def test_a_reply_is_limited_to_what_a_budget_has_room_for(limiter: RateLimiter) -> None:
    first = granted(limiter.reserve(long_reply(1, DAY, OWN)))
    limiter.release(first, Used(tokens=2_000, usd=0.7))
    second = granted(limiter.reserve(long_reply(2, OWN)))
    limiter.release(second, Used(tokens=1_100, usd=0.15))

    refused = limiter.reserve(long_reply(3, OWN))

    assert (first.reply_tokens, first.limited_by) == (9_000, "day")
    assert (second.reply_tokens, second.limited_by) == (2_000, "batch:b")
    assert isinstance(refused, Denied)  # there is room for 500 tokens only
    held = limiter.queries.budget_fields("batch:b", "held_cost", "held_tokens")
    assert held == [0, 0]


def test_room_that_others_have_reserved_limits_no_reply(limiter: RateLimiter, clock: Clock) -> None:
    first = granted(limiter.reserve(long_reply(1, OWN)))

    second = waits(limiter.reserve(long_reply(2, OWN)))
    limiter.release(first, Used(tokens=10, usd=0.01))
    clock.move(second.delay_s)

    assert second.why == "held"
    assert granted(limiter.reserve(long_reply(2, OWN))).reply_tokens == 8_900


def test_a_batch_has_the_budget_of_its_last_start(limiter: RateLimiter) -> None:
    limiter.begin_batch_budget("b", 0.2, Used(usd=0.15))
    refused = limiter.reserve(budgeted(1, OWN, worst_usd=0.1))
    spent = limiter.begin_batch_budget("b", 0.3, Used(usd=0.05))
    call = granted(limiter.reserve(budgeted(1, OWN, worst_usd=0.1)))
    limiter.release(call, Used(usd=0.1))
    limiter.lift_batch_budget("b")

    assert isinstance(refused, Denied)
    assert spent == pytest.approx(0.15)
    assert isinstance(limiter.reserve(budgeted(2, OWN, worst_usd=5.0)), Grant)


@pytest.mark.parametrize("seed", range(2))
def test_racing_calls_with_long_replies_spend_no_more_than_there_is(
    redis_server: RedisServer, redis_client: redis.Redis, seed: int
) -> None:
    random = Random(seed)
    limiters = [RateLimiter(connect(redis_server.url)) for _ in range(4)]
    plans = [(number, random.random()) for number in range(60)]

    def spend(plan: tuple[int, float]) -> float:
        number, share = plan
        verdict = limiters[number % 4].reserve(long_reply(number, OWN))
        if not isinstance(verdict, Grant):
            return 0.0
        usd = share * verdict.reservation.worst_usd
        limiters[number % 4].release(verdict, Used(usd=usd))
        return usd

    with ThreadPoolExecutor(8) as threads:
        spent = sum(threads.map(spend, plans))

    assert 0 < spent <= 1.0


def test_one_call_delivered_twice_reserves_once(limiter: RateLimiter) -> None:
    call = budgeted(1, DAY, worst_usd=0.6)
    granted(limiter.reserve(call))
    again = granted(limiter.reserve(call))

    limiter.release(again, Used(usd=0.1))

    assert isinstance(limiter.reserve(budgeted(2, DAY, worst_usd=0.9)), Grant)


def test_what_a_dead_worker_reserved_is_free_after_the_lease(
    limiter: RateLimiter, clock: Clock
) -> None:
    granted(limiter.reserve(budgeted(1, DAY, worst_usd=0.9)))
    assert isinstance(limiter.reserve(budgeted(2, DAY, worst_usd=0.9)), Delay)

    clock.move(16)

    assert isinstance(limiter.reserve(budgeted(3, DAY, worst_usd=0.9)), Grant)


def test_a_call_that_fails_costs_nothing(limiter: RateLimiter) -> None:
    call = granted(limiter.reserve(budgeted(1, DAY, worst_usd=0.9, worst_tokens=9)))

    limiter.release(call, Used())

    assert limiter.queries.spent("day") == (0.0, 0)
    assert isinstance(limiter.reserve(budgeted(2, DAY, worst_usd=1.0)), Grant)


def test_a_new_day_has_a_budget_of_its_own(limiter: RateLimiter, clock: Clock) -> None:
    limiter.release(granted(limiter.reserve(budgeted(1, DAY, worst_usd=1.0))), Used(usd=1.0))
    assert isinstance(limiter.reserve(budgeted(2, DAY, worst_usd=0.1)), Denied)

    clock.move(86_400)

    assert isinstance(limiter.reserve(budgeted(2, DAY, worst_usd=0.1)), Grant)


def test_a_used_up_budget_that_pauses_lets_calls_wait_for_a_person(
    limiter: RateLimiter, redis_client: redis.Redis
) -> None:
    call = granted(limiter.reserve(budgeted(1, PAUSING, worst_tokens=100)))
    limiter.release(call, Used(tokens=95))

    waiting = waits(limiter.reserve(budgeted(2, PAUSING, worst_tokens=10)))

    assert (waiting.name, waiting.why) == ("batch:b", "budget")
    assert redis_client.hgetall("{limits}:people") == {f"{2:016x}": "batch:b"}


def test_a_paused_budget_that_is_granted_again_goes_on(limiter: RateLimiter) -> None:
    call = granted(limiter.reserve(budgeted(1, PAUSING, worst_tokens=100)))
    limiter.release(call, Used(tokens=95))
    second = budgeted(2, PAUSING, worst_tokens=100)
    waits(limiter.reserve(second))

    limiter.grant_again("batch:b")
    woken = limiter.wake("batch:b", 10)

    assert woken == [second.call]
    assert isinstance(limiter.reserve(second), Grant)


def test_a_budget_that_stops_submissions_lets_runs_under_way_go_on(limiter: RateLimiter) -> None:
    stopping = ("day", Budget("day", usd=0.1, on_excess="stop"))
    call = granted(limiter.reserve(budgeted(1, stopping, worst_usd=0.5)))
    limiter.release(call, Used(usd=0.5))

    assert isinstance(limiter.reserve(budgeted(2, stopping, worst_usd=0.5)), Grant)
    assert stopping[1].is_used_up(*limiter.queries.spent("day"))


def test_a_call_heeds_all_its_budgets(limiter: RateLimiter) -> None:
    roomy = ("day", Budget("day", usd=100.0))
    small = ("run:r", Budget("run", usd=0.1))

    verdict = limiter.reserve(budgeted(1, roomy, small, worst_usd=0.5))

    assert isinstance(verdict, Denied)
    assert (verdict.name, limiter.queries.spent("day")) == ("run:r", (0.0, 0))
