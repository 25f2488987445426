"""Workers die while they hold allotments of limits and a budget: these hold, and come back."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from time import monotonic
from typing import Any

import pytest
import redis

from sleipnir.scheduler.limits.money import NANO
from sleipnir.scheduler.limits.rules import Budget
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.rate_limiter import LEASE_S, RateLimiter
from tests.support.fleet import Fleet
from tests.support.invariants import assert_consistent
from tests.support.limits import budgeted, granted
from tests.support.model_server import ModelServer, Reply
from tests.support.model_server import Request as Received
from tests.support.wait import wait_until
from tests.support.workers import Workers

REPLY = 100  # tokens
GRAPH = f"""
model: openai:m
start: ask
nodes:
  ask: {{type: llm, prompt: Why?, max_tokens: {REPLY}, next: z}}
  z: {{type: end}}
"""
# The rate is never reached: while calls wait, none are allotted.
A_SECOND, AT_ONCE = 100, 120  # calls
COST_USD = 0.001  # of a call, and of what is reserved for one
CALLS = 200  # that the budget has for each kill, and as many at the end
BATCH = "b"
OPEN = 60  # runs that are open while workers die
RUSH_S = 1.0  # how long a call takes at the end


class Provider:
    """A provider that counts calls."""

    def __init__(self, server: ModelServer) -> None:
        self.took_s = 0.2
        self.came: list[tuple[float, float]] = []  # when, and how long each took
        server.when(lambda _: True, self.reply)

    def reply(self, _: Received) -> Reply:
        took_s = self.took_s
        self.came.append((monotonic(), took_s))
        return Reply(text="So.", prompt_tokens=0, completion_tokens=REPLY, delay_s=took_s)

    def most_at_once(self) -> int:
        """Return the most calls that it had not answered."""
        changes = [(at, 1) for at, _ in self.came]
        changes += [(at + took_s, -1) for at, took_s in self.came]
        under_way = most = 0
        for _, change in sorted(changes):
            under_way += change
            most = max(most, under_way)
        return most


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield Provider(server)


class Shares:
    """What workers were allotted of a limit, and have not settled."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        self._last: dict[str, float] = {}

    def holders(self) -> int:
        """Return how many processes have settled since `note`, and hold something."""
        return sum(until > self._last.get(name, 0) for name, until in self._read().items())

    def note(self) -> None:
        """Remember what each process holds now, and for how long: the dead do not renew it."""
        self._last = self._read()

    def _read(self) -> dict[str, float]:
        found: Any = self._redis.zrange("{limits}:shares:openai", 0, -1, withscores=True)
        return {share.partition("|")[0]: until for share, until in found}


class SingleCalls:
    """Runs of one batch, each with one call."""

    def __init__(self, workers: Workers) -> None:
        workers.write("asks", GRAPH)
        self._workers = workers
        self._agent = workers.client.prepare("asks")
        self.run_ids: list[str] = []

    def submit(self, count: int) -> None:
        for _ in range(count):
            self.run_ids.append(self._workers.client.submit(self._agent, Request(batch=BATCH)))

    def open(self) -> int:
        """Return how many runs are not over."""
        (row,) = self._workers.queries.batch_rows([BATCH])
        return len(self.run_ids) - (0 if row is None else row.succeeded + row.failed)

    def ends(self) -> set[str]:
        """Return the statuses of all runs, or the codes of their failures."""
        runs = [run for run in self._workers.queries.runs(self.run_ids) if run is not None]
        return {run.failure.code if run.failure else str(run.status) for run in runs}


@pytest.mark.parametrize(
    # Runs for which there is no money wait until the dead give theirs back, a lease later.
    ("kills", "too_many"),
    [
        pytest.param(2, -60, id="short", marks=pytest.mark.chaos),
        pytest.param(6, 60, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(300)]),
    ],
)
def test_what_the_dead_were_allotted_comes_back_and_no_limit_is_exceeded(
    kills: int,
    too_many: int,
    workers: Workers,
    provider: Provider,
    redis_client: redis.Redis,
    rng: random.Random,
) -> None:
    affordable = (kills + 1) * CALLS
    budget_usd, lost_usd = affordable * COST_USD, 0.0
    settings = {"models": models(budget_usd)}
    fleet, load = Fleet(workers, rng, 2, "--scheduler", **settings), SingleCalls(workers)
    shares, limits = Shares(redis_client), RateLimiter(redis_client).queries

    def are_allotted() -> bool:
        load.submit(OPEN - load.open())
        return shares.holders() == 2

    for _ in range(kills):
        wait_until(are_allotted, "both workers hold calls and money")
        (held_nano,) = limits.budget_fields(f"batch:{BATCH}", "held_cost")
        lost_usd += held_nano / NANO
        fleet.kill_one()
        shares.note()
    provider.took_s = RUSH_S
    workers.start(**settings, concurrency=128)
    load.submit(affordable + too_many - len(load.run_ids))
    wait_until(lambda: load.open() == 0, "no run waits for what the dead were allotted")

    assert load.ends() == {"succeeded", *(("R025",) if too_many > 0 else ())}
    spent_usd, _ = limits.spent(f"batch:{BATCH}")
    assert spent_usd <= budget_usd + 1e-9
    assert len(provider.came) * COST_USD <= budget_usd + lost_usd + 1e-9
    assert provider.most_at_once() <= AT_ONCE
    assert_all_is_free(redis_client, budget_usd)
    assert_consistent(redis_client, runs=len(load.run_ids))


def models(budget_usd: float) -> str:
    """Return the setting `models`."""
    provider = {"requests_per_minute": 60 * A_SECOND, "concurrency": AT_ONCE}
    price = {"prompt": 0, "completion": COST_USD / REPLY * 1e6}
    return json.dumps(
        {
            "providers": {"openai": provider},
            "prices": {"openai:m": price},
            "budgets": {"batch": {"usd": budget_usd}},
        }
    )


def assert_all_is_free(client: redis.Redis, budget_usd: float) -> None:
    """Check that a lease later nothing is held of what was allotted."""
    at_ms = RateLimiter(client).queries.now_ms() + int(1000 * LEASE_S) + 1000
    later = RateLimiter(client, RedisClock(client, lambda: at_ms))
    budget = Budget("batch", usd=budget_usd + 1)
    granted(later.reserve(budgeted(0, (f"batch:{BATCH}", budget))))
    assert later.queries.budget_fields(f"batch:{BATCH}", "held_cost") == [0]
    assert later.queries.calls_under_way("openai", at_ms) == 0
