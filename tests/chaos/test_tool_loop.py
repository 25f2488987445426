"""Workers die amid conversations with models: none is begun again, and each call has one key."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sleipnir.worker.llm.client import Endpoint, ModelRequest, complete
from tests.support.dying import IN_A_CONVERSATION, Deaths
from tests.support.engine import Engine
from tests.support.fleet import SETTINGS, Fleet
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, says
from tests.support.tool_load import TEXTS, ToolLoad, script
from tests.support.wait import wait_until
from tests.support.workers import Workers

CONCURRENCY = 4
# Between two turns of a normal agent.
AT_A_STEP = ("before.advance", "after.advance", "after.begin")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        script(server, delay_s=0.05)
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield server


def load_client() -> None:
    """Load all that a model call needs here, not in each of the processes that die.

    On a server of its own: processes must not share a connection.
    """
    with ModelServer(says("hello")) as server:
        endpoint = Endpoint("openai/m", api_base=server.base_url, api_key="none")
        complete(ModelRequest("openai:m", [{"role": "user", "content": "?"}]), endpoint=endpoint)


@pytest.mark.parametrize("normal", [False, True], ids=["node", "agent"])
@pytest.mark.parametrize(
    ("runs", "kills"),
    [
        pytest.param(10, 1, id="short"),
        pytest.param(300, 12, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(400)]),
    ],
)
def test_conversations_survive_kills_of_workers(
    runs: int,
    kills: int,
    normal: bool,
    server: ModelServer,
    workers: Workers,
    redis_client: redis.Redis,
    rng: random.Random,
) -> None:
    # A busy machine must not end leases: what that repeats is not counted here.
    fleet = Fleet(workers, rng, 2, "--scheduler", concurrency=CONCURRENCY, lease_s=5)
    load = ToolLoad(workers, server, workers.directory, normal=normal)
    load.submit(runs)

    for executions in sorted(rng.sample(range(1, len(TEXTS) * runs - 10), kills)):
        wait_until(lambda: len(load.executions()) >= executions, "calls are carried out", 60)  # noqa: B023 - at once
        assert not load.is_over()
        fleet.kill_one()
    wait_until(load.is_over, "everything is done", 120)

    load.check(at_most_lost=kills * CONCURRENCY)
    assert_consistent(redis_client, runs=runs)


@pytest.mark.chaos
@pytest.mark.parametrize("place", ["before", "after", "amid"])
def test_another_worker_goes_on_with_the_conversations_of_one_that_died(
    place: str, server: ModelServer, workers: Workers, redis_client: redis.Redis
) -> None:
    doomed = workers.start(failpoint=f"{place}.record_turn:kill:4", **SETTINGS)
    load = ToolLoad(workers, server, workers.directory)
    load.submit(6)
    wait_until(lambda: not doomed.is_running(), "it has died", 30)

    workers.start("--scheduler", **SETTINGS)
    wait_until(load.is_over, "the other one has done its work", 30)

    load.check(at_most_lost=6)
    assert_consistent(redis_client, runs=6)


@pytest.mark.parametrize("normal", [False, True], ids=["node", "agent"])
@pytest.mark.parametrize(
    "deaths_at_each",
    [
        pytest.param(2, id="short"),
        pytest.param(8, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(400)]),
    ],
)
def test_a_death_before_or_after_any_entry_of_a_conversation_changes_nothing(
    deaths_at_each: int,
    normal: bool,
    server: ModelServer,
    engine: Engine,
    rng: random.Random,
    tmp_path: Path,
) -> None:
    load_client()
    engine.configure(max_deliveries=1000)
    deaths = Deaths(engine, rng)
    load = ToolLoad(engine, server, tmp_path, normal=normal)
    places = (*IN_A_CONVERSATION, *AT_A_STEP) if normal else IN_A_CONVERSATION

    while min(deaths.at[place] for place in places) < deaths_at_each:
        load.submit(1)
        deaths.work_off(load.is_over, places, lambda: None)

    load.check(at_most_lost=deaths.at.total())
    assert_consistent(engine.redis, runs=len(load.run_ids))
