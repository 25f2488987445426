"""Calls that race for a budget which is smaller than what one of them may cost."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
import redis

from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.worker.llm.caller import Caller, MustWait
from sleipnir.worker.llm.client import BudgetRefused, ModelRequest
from tests.support.engine import Clock, Engine
from tests.support.model_server import ModelServer, Reply, Request

MODEL = "openai:long-winded"
PRICE = {"prompt": 1.0, "completion": 10.0}
LONGEST = 128_000  # tokens of a reply, which cost 1.28 USD
BUDGET_USD = 0.50


class Bill:
    """Replies of any length that is allowed, some of the greatest, and what they cost together."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.usd = 0.0

    def __call__(self, request: Request) -> Reply:
        most = request.body["max_completion_tokens"]
        tokens = most if self._random.random() < 0.02 else self._random.randrange(most // 8)
        self.usd += (9 * PRICE["prompt"] + tokens * PRICE["completion"]) / 1e6
        return Reply(text="So.", prompt_tokens=9, completion_tokens=tokens)


@pytest.mark.parametrize("seed", range(2))
def test_some_of_200_racing_calls_are_made_and_never_more_is_spent(
    redis_client: redis.Redis,
    clock: Clock,
    tmp_path: Path,
    own_directories: None,
    server: ModelServer,
    seed: int,
) -> None:
    bill = Bill(seed)
    server.when(lambda _: True, bill)
    models = {
        "prices": {MODEL: PRICE},
        "max_output_tokens": LONGEST,
        "budgets": {"day": {"usd": BUDGET_USD}},
    }
    workers = [Engine(redis_client, clock, tmp_path / str(n), models=models) for n in range(4)]
    request = ModelRequest(MODEL, [{"role": "user", "content": "Why?"}])

    def ask(number: int) -> str:
        run = f"{number:016x}"
        caller = Caller(run, run, None, "ask", f"{run}:1/ask:1:1")
        try:
            return workers[number % 4].services.models.ask(request, caller, 30).text
        except MustWait:
            return "waits"
        except BudgetRefused:
            return "refused"

    ends = dict.fromkeys(range(200), "waits")
    with ThreadPoolExecutor(16) as threads:
        while waiting := [number for number, end in ends.items() if end == "waits"]:
            ends |= zip(waiting, threads.map(ask, waiting), strict=True)
            assert bill.usd <= BUDGET_USD
            clock.move(1)

    spent, _ = RateLimiter(redis_client, RedisClock(redis_client, clock)).queries.spent("day")
    made = [end for end in ends.values() if end == "So."]
    assert spent == pytest.approx(bill.usd)
    assert len(made) == len(server.requests) > 10
    assert set(ends.values()) == {"So.", "refused"}
