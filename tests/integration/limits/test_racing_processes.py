"""Processes whose threads race for the rest of a budget."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from random import Random
from threading import Lock

import pytest
import redis

from sleipnir.scheduler.limits.records import Delay, Denied, Grant, Used
from sleipnir.scheduler.limits.rules import Budget, Limit
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.worker.llm.limits.allotments import Allotments, AllottedGrant
from tests.support.limits import reservation
from tests.support.redis_server import RedisServer

PROCESSES, THREADS, CALLS = 3, 8, 900
SLOTS = Limit("p", concurrency=100)
BUDGET = ("run:r", Budget("run", usd=30.0))
WORST_USD = 0.1


class Bill:
    """What calls have cost, and those under way, whoever makes them."""

    def __init__(self, seed: int) -> None:
        self._random, self._lock = Random(seed), Lock()
        self._under_way: list[tuple[Allotments, Grant, float]] = []
        self.usd = 0.0
        self.allotted = 0

    def begin(self, process: Allotments, grant: Grant) -> None:
        with self._lock:
            usd = self._random.random() * WORST_USD
            self._under_way.append((process, grant, usd))
            self.allotted += isinstance(grant, AllottedGrant)

    def end_some(self, more_than: int) -> None:
        """End calls, at random, until only so many are left."""
        while True:
            with self._lock:
                if len(self._under_way) <= more_than:
                    return
                place = self._random.randrange(len(self._under_way))
                process, grant, usd = self._under_way.pop(place)
                self.usd += usd
            process.release(grant, Used(usd=usd))


def a_process(url: str, looks: Iterator[int]) -> Allotments:
    """Return a process for which a ms passes each time that any looks at the clock."""
    process = Allotments(RateLimiter(connect(url)), list, lambda: next(looks) / 1_000)
    process.are_used = True
    return process


@pytest.mark.parametrize("seed", range(2))
def test_racing_processes_overshoot_no_budget_and_give_all_slots_back(
    redis_server: RedisServer, redis_client: redis.Redis, seed: int
) -> None:
    looks = itertools.count()
    processes = [a_process(redis_server.url, looks) for _ in range(PROCESSES)]
    bill, queries = Bill(seed), RateLimiter(redis_client).queries

    def ask(number: int) -> str:
        process = processes[number % PROCESSES]
        call = reservation(number, SLOTS, budgets=(BUDGET,), worst_usd=WORST_USD)
        verdict = process.reserve(call)
        if number % 50 == 0:
            process.settle()
        match verdict:
            case Grant():
                bill.begin(process, verdict)
                bill.end_some(more_than=number % 30)
                return "made"
            case Delay():
                return "waits"
            case Denied():
                return "refused"

    with ThreadPoolExecutor(PROCESSES * THREADS) as threads:
        list(threads.map(ask, range(CALLS)))
    for number in itertools.count(CALLS):
        bill.end_some(more_than=0)
        for process in processes:
            process.settle()
        if ask(number) == "refused":
            break

    spent, _ = queries.spent("run:r")
    assert bill.allotted > 0
    assert 30 - WORST_USD < bill.usd <= 30
    assert spent == pytest.approx(bill.usd, abs=1e-6)
    assert queries.budget_fields("run:r", "held_cost") == [0]
    assert queries.calls_under_way("p", queries.now_ms()) == 0
