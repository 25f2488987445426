"""Calls that processes admit by themselves: limits hold as if Redis had admitted each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, cast

import pytest
import redis

from sleipnir.scheduler.limits.records import (
    Delay,
    Denied,
    Grant,
    Reservation,
    Used,
)
from sleipnir.scheduler.limits.rules import Budget, Limit
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.worker.llm.limits.allotments import Allotments, AllottedGrant
from tests.support.engine import Clock
from tests.support.limits import UNAVAILABLE, Simulation, allotments_of, granted, reservation

WIDE = Limit("p", requests_per_minute=60_000, tokens_per_minute=60_000_000, concurrency=2_000)


@pytest.fixture
def limiter(redis_client: redis.Redis, clock: Clock) -> RateLimiter:
    return RateLimiter(redis_client, RedisClock(redis_client, clock))


@pytest.fixture
def process(limiter: RateLimiter, clock: Clock) -> Allotments:
    return allotments_of(limiter, clock)


@pytest.fixture
def simulate(limiter: RateLimiter, clock: Clock) -> Callable[..., Simulation]:
    def start(seed: int, **options: Any) -> Simulation:
        return Simulation(limiter, clock, Random(seed), **options)

    return start


def calls(count: int, *limits: Limit, **fields: Any) -> Iterator[Reservation]:
    return (reservation(number, *limits, **fields) for number in range(count))


def admitted(
    process: Allotments, clock: Clock, each_s: float, some: Iterator[Reservation]
) -> list[Grant | Delay | Denied]:
    """Let calls come one after the other; the answers."""
    answers = []
    for call in some:
        answers.append(process.reserve(call))
        clock.move(each_s)
    return answers


def is_allotted(verdict: Grant | Delay | Denied) -> bool:
    return isinstance(verdict, AllottedGrant)


def scripts_of(client: redis.Redis) -> int:
    stats = cast(dict[str, dict[str, int]], client.info("commandstats"))
    return sum(stats[name]["calls"] for name in stats.keys() & {"cmdstat_evalsha", "cmdstat_eval"})


# ---- limits hold


def a_calm_and_a_rush(
    random: Random, calm: int, rush: int, *limits: Limit
) -> list[tuple[int, Reservation]]:
    """Arrivals of `calm` calls a second for some seconds, then of `rush` calls within two."""
    calm_ms = random.randint(6_000, 12_000)
    times = [random.randint(0, calm_ms) for _ in range(calm * calm_ms // 1_000)]
    times += [calm_ms + random.randint(0, 2_000) for _ in range(rush)]
    return [
        (ms, reservation(number, *limits, tokens=random.randint(1, 400)))
        for number, ms in enumerate(sorted(times))
    ]


@pytest.mark.parametrize("seed", range(2))
def test_no_minute_has_more_than_allowed_whoever_admits_calls(
    simulate: Callable[..., Simulation], seed: int
) -> None:
    simulation = simulate(seed, processes=2, late_ms=1_500, took_ms=(10, 3_000)[seed])
    limits = Limit("p", requests_per_minute=3_000), Limit("p:m", tokens_per_minute=620_000)

    simulation.run(a_calm_and_a_rush(simulation.random, 46, 3_100, *limits))

    assert simulation.allotted > 50
    assert 2_900 < simulation.most_in_a_minute() <= 3_000
    assert 580_000 < simulation.most_in_a_minute("tokens") < 620_000 + 400


@pytest.mark.parametrize("seed", range(2))
def test_there_are_never_more_calls_at_once_than_allowed(
    simulate: Callable[..., Simulation], seed: int
) -> None:
    simulation = simulate(seed, processes=3, late_ms=300, took_ms=1_500)

    simulation.run(a_calm_and_a_rush(simulation.random, 70, 600, Limit("p", concurrency=200)))

    assert simulation.allotted > 50
    assert 190 < simulation.most_at_once <= 200


@pytest.mark.parametrize("seed", range(2))
def test_a_budget_is_never_overshot(simulate: Callable[..., Simulation], seed: int) -> None:
    simulation = simulate(seed, processes=3, took_ms=1_500)
    budgets = (("day", Budget("day", usd=5.0)), ("batch:b", Budget("batch", tokens=10**6)))

    def arrivals() -> Iterator[tuple[int, Reservation]]:
        for number in range(1_200):
            usd = simulation.random.random() / 50
            call = reservation(number, budgets=budgets, worst_tokens=50, worst_usd=usd)
            yield simulation.random.randint(0, 12_000), call

    simulation.run(arrivals())

    assert simulation.allotted > 200
    assert 4.5 < simulation.spent_usd <= 5
    assert simulation.refused > 0
    spent, _ = simulation.limiter.queries.spent("day")
    assert spent == pytest.approx(simulation.spent_usd, abs=1e-5)


def test_a_burst_is_no_larger_for_calls_that_were_allotted(
    limiter: RateLimiter, redis_client: redis.Redis, clock: Clock
) -> None:
    def burst() -> int:
        verdicts = [limiter.reserve(call) for call in calls(200, limit)]
        return sum(isinstance(verdict, Grant) for verdict in verdicts)

    limit = Limit("p", requests_per_minute=4_800)
    alone = burst()
    redis_client.flushall()
    process = allotments_of(limiter, clock)
    admitted(process, clock, 0.04, calls(25, limit))
    clock.move(0.9)

    late = sum(map(is_allotted, admitted(process, clock, 0.0, calls(3, limit))))

    assert late > 0
    assert late + burst() <= alone


# ---- what it takes


def test_a_hundred_calls_a_second_ask_once_a_second(
    process: Allotments, redis_client: redis.Redis, clock: Clock
) -> None:
    admitted(process, clock, 0.01, calls(100, WIDE))
    redis_client.config_resetstat()

    verdicts = admitted(process, clock, 0.01, calls(200, WIDE))

    assert all(map(is_allotted, verdicts))
    assert scripts_of(redis_client) <= 4


def test_below_twenty_calls_a_second_each_is_admitted_by_redis(
    process: Allotments, limiter: RateLimiter, redis_client: redis.Redis, clock: Clock
) -> None:
    limiter.release(granted(limiter.reserve(reservation(99, WIDE))), Used())
    redis_client.config_resetstat()
    verdicts = []
    for call in calls(60, WIDE):
        verdicts.append(process.reserve(call))
        clock.move(0.053)
        process.release(granted(verdicts[-1]), Used())
    process.settle()

    assert not any(map(is_allotted, verdicts))
    assert scripts_of(redis_client) == 2 * 60


def test_an_allotment_is_a_twentieth_of_what_is_free(process: Allotments, clock: Clock) -> None:
    slots = Limit("p", concurrency=200)

    verdicts = admitted(process, clock, 0.0, calls(40, slots))

    # 20 are free to be admitted one by one; of the other 180 places, 9 are allotted, then 8 …
    assert [is_allotted(verdict) for verdict in verdicts] == [False] * 20 + [True] * 20


def test_what_is_not_used_within_a_second_lapses(process: Allotments, clock: Clock) -> None:
    admitted(process, clock, 0.0, calls(21, WIDE))
    clock.move(1)

    assert not is_allotted(process.reserve(reservation(30, WIDE)))


# ---- what else happens


def busy(process: Allotments, clock: Clock, *limits: Limit, **fields: Any) -> list[Grant]:
    """Let a process make 20 calls with an allotment; these."""
    verdicts = admitted(process, clock, 0.0, calls(40, *(limits or (WIDE,)), **fields))
    return [grant for grant in map(granted, verdicts) if is_allotted(grant)]


def test_a_pause_by_a_person_holds_calls_within_a_second(
    process: Allotments, limiter: RateLimiter, clock: Clock
) -> None:
    busy(process, clock)
    limiter.pause("p", "audit")
    clock.move(1)

    verdicts = admitted(process, clock, 0.0, calls(3, WIDE))

    assert [cast(Delay, verdict).why for verdict in verdicts] == ["command"] * 3


def test_a_call_that_fails_pauses_the_others(
    process: Allotments, limiter: RateLimiter, clock: Clock
) -> None:
    (first, *_) = busy(process, clock, max_wait_s=60.0)

    delay, _ = process.release(first, Used(), UNAVAILABLE)

    assert delay is not None
    assert limiter.notices().pauses == {"p"}
    assert isinstance(process.reserve(reservation(99, WIDE, max_wait_s=60.0)), Delay)


def test_while_calls_wait_none_are_allotted(
    process: Allotments, limiter: RateLimiter, clock: Clock
) -> None:
    slots = Limit("p", concurrency=100)
    grants = [granted(limiter.reserve(reservation(n, slots))) for n in range(1_000, 1_100)]
    waiting = reservation(2_000, slots)
    assert isinstance(limiter.reserve(waiting), Delay)
    for grant in grants[1:]:
        limiter.release(grant, Used())

    verdicts = admitted(process, clock, 0.0, calls(40, slots))

    assert not any(map(is_allotted, verdicts))


def test_a_call_that_has_waited_leaves_its_line(
    process: Allotments, limiter: RateLimiter, clock: Clock
) -> None:
    busy(process, clock)

    verdict = process.reserve(reservation(99, WIDE, has_waited=True))

    assert isinstance(verdict, Grant)
    assert not is_allotted(verdict)


def test_a_dead_process_s_part_is_free_after_its_lease(
    process: Allotments, limiter: RateLimiter, clock: Clock
) -> None:
    slots, budget = Limit("p", concurrency=200), ("run:r", Budget("run", usd=100.0))
    fields: dict[str, Any] = {"budgets": (budget,), "worst_usd": 1.0}
    grants = busy(process, clock, slots, **fields)

    def held() -> tuple[int, int]:
        now_ms = limiter.queries.now_ms()
        limiter.reserve(reservation(5_000, slots, **fields))
        (usd,) = limiter.queries.budget_fields("run:r", "held_cost")
        return limiter.queries.calls_under_way("p", now_ms), usd // 10**9

    assert min(held()) >= 20 + len(grants)
    clock.move(16)
    assert held() == (1, 1)  # of that last call


def test_a_settled_call_frees_its_place_and_wakes_who_waits_for_it(
    limiter: RateLimiter, clock: Clock
) -> None:
    woken: list[str] = []
    process = allotments_of(limiter, clock, woken.extend)
    slots = Limit("p", concurrency=200)
    grants = busy(process, clock, slots)
    others = [limiter.reserve(reservation(n, slots)) for n in range(1_000, 1_200)]
    (waiting, *_) = [verdict for verdict in others if isinstance(verdict, Delay)]

    for grant in grants:
        process.release(grant, Used())
    process.settle()

    assert waiting.why == "concurrency"
    assert len(woken) >= len(grants)


def test_an_answer_that_is_lost_is_asked_for_again(
    process: Allotments, limiter: RateLimiter, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    budget = ("run:r", Budget("run", usd=1_000.0))
    grants = busy(process, clock, WIDE, budgets=(budget,), worst_usd=1.0)
    allot = limiter.allot

    def lose(settlement: Any) -> Any:
        allot(settlement)
        raise ConnectionError

    for grant in grants:
        process.release(grant, Used(usd=0.5))
    with monkeypatch.context() as lost:
        lost.setattr(limiter, "allot", lose)
        with pytest.raises(ConnectionError):
            process.settle()
    process.settle()

    assert limiter.queries.spent("run:r")[0] == pytest.approx(len(grants) * 0.5)


def test_calls_of_yesterday_are_settled_with_yesterday_s_budget(
    process: Allotments, limiter: RateLimiter, redis_client: redis.Redis, clock: Clock
) -> None:
    budget = ("day", Budget("day", usd=1_000.0))
    clock.ms = clock.ms // 86_400_000 * 86_400_000 + 86_399_000
    yesterday = limiter.queries.budget_id("day")
    grants = busy(process, clock, budgets=(budget,), worst_usd=1.0)
    clock.move(2)
    admitted(process, clock, 0.0, calls(25, WIDE, budgets=(budget,), worst_usd=1.0))

    for grant in grants:
        process.release(grant, Used(usd=0.5))
    process.settle()

    spent = redis_client.hget(f"{{limits}}:budget:{yesterday}", "cost")
    assert int(spent or 0) == len(grants) * 500_000_000
    assert limiter.queries.spent("day") == (0.0, 0)
    assert limiter.queries.budget_id("day") != yesterday


def test_a_call_that_nobody_ends_is_not_held_for_ever(
    process: Allotments, limiter: RateLimiter, clock: Clock
) -> None:
    lost = busy(process, clock, Limit("p", concurrency=200))
    before = limiter.queries.calls_under_way("p", limiter.queries.now_ms())
    count = len(lost)
    lost.clear()
    clock.move(1)

    process.settle()

    now_ms = limiter.queries.now_ms()
    assert limiter.queries.calls_under_way("p", now_ms) <= before - count
