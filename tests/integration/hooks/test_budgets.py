"""Hooks are told once of each budget that is used up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.errors import BudgetUsedUp
from tests.support.engine import Engine
from tests.support.hooks import deliver_all, delivering, hook_key, open_deliveries, verified
from tests.support.model_server import ModelServer, says
from tests.support.web_server import Page, WebServer

ASK = """
start: ask
nodes:
  ask: {type: llm, model: openai:m, prompt: "{{initial_prompt}}", next: done}
  done: {type: end, output: done}
"""
PROMPT = "x" * 200


@pytest.fixture
def receiver() -> Iterator[WebServer]:
    with WebServer({"/in": Page("thanks")}) as server:
        yield server


@pytest.fixture(autouse=True)
def nothing_left(engine: Engine) -> Iterator[None]:
    yield
    engine.redis.flushall()


@pytest.fixture
def key_file(tmp_path: Path) -> str:
    return hook_key(tmp_path)


def limited(engine: Engine, key_file: str, scope: str, **budget: Any) -> None:
    engine.configure(
        hook_key_file=key_file,
        allow_private_addresses=True,
        models={"max_output_tokens": 5, "budgets": {scope: {"tokens": 10, **budget}}},
    )


def hooked(engine: Engine, receiver: WebServer, **more: Any) -> str:
    """Make a hook that is told of budgets; return its secret."""
    # Signatures of another day are not accepted.
    engine.clock.ms = 1000 * cast(Any, engine.redis).time()[0]
    wanted = {"url": receiver.url("/in"), "events": ["budget.used_up"], **more}
    return engine.client.hooks.create("ops", wanted).secret


def deliver(engine: Engine) -> None:
    with delivering(engine) as scheduler:
        deliver_all(engine, scheduler)


def test_a_budget_that_refuses_calls_is_told_once(
    engine: Engine, server: ModelServer, receiver: WebServer, key_file: str
) -> None:
    limited(engine, key_file, "day")
    secret = hooked(engine, receiver)

    for _ in range(3):
        engine.finish(ASK, prompt=PROMPT)
    deliver(engine)

    (visit,) = receiver.visits
    document = verified(visit, secret)
    assert document["type"] == "budget.used_up"
    assert document["data"] == {
        "budget": "day",
        "limit_usd": None,
        "limit_tokens": 10,
        "spent_usd": 0.0,
        "spent_tokens": 0,
        "on_excess": "fail",
        "url": None,
    }


def test_a_budget_that_was_granted_again_is_told_again(
    engine: Engine, server: ModelServer, receiver: WebServer, key_file: str
) -> None:
    limited(engine, key_file, "day", on_excess="pause")
    secret = hooked(engine, receiver)
    engine.finish(ASK, prompt=PROMPT)
    deliver(engine)

    commands = LimitCommands(engine.store, lambda _seconds: engine.gate.refresh())
    commands.resume("day")
    engine.drive()
    deliver(engine)

    told = [verified(visit, secret)["data"]["limit_tokens"] for visit in receiver.visits]
    assert told == [10, 20]
    assert len({visit.headers["webhook-id"] for visit in receiver.visits}) == 2


def test_the_budget_of_a_run_is_told_to_whom_its_runs_are(
    engine: Engine, server: ModelServer, receiver: WebServer, key_file: str
) -> None:
    limited(engine, key_file, "run")
    secret = hooked(engine, receiver, filter={"label": {"team": "a"}})

    wanted = engine.finish(ASK, prompt=PROMPT, labels={"team": "a"})
    engine.finish(ASK, prompt=PROMPT, labels={"team": "b"})
    deliver(engine)

    budgets = [verified(visit, secret)["data"]["budget"] for visit in receiver.visits]
    assert budgets == [f"run:{wanted.run_id}"]


def test_the_budget_of_a_batch_is_told_to_whom_the_batch_is(
    engine: Engine, server: ModelServer, receiver: WebServer, key_file: str
) -> None:
    limited(engine, key_file, "batch")
    secret = hooked(engine, receiver, filter={"batch": "b"})

    for batch in ("a", "b"):
        engine.finish(ASK, prompt=PROMPT, batch=batch)
    deliver(engine)

    budgets = [verified(visit, secret)["data"]["budget"] for visit in receiver.visits]
    assert budgets == ["batch:b"]


@pytest.mark.parametrize("scope", ["run", "batch"])
def test_a_budget_is_told_to_the_url_that_its_run_or_batch_was_submitted_with(
    engine: Engine, server: ModelServer, receiver: WebServer, key_file: str, scope: str
) -> None:
    limited(engine, key_file, scope)
    receiver.pages["/own"] = Page("thanks")
    engine.client.hooks.create("default", {"url": receiver.url("/in"), "events": ["run.failed"]})

    engine.finish(ASK, prompt=PROMPT, batch="a", webhook=receiver.url("/own"))
    engine.finish(ASK, prompt=PROMPT, batch="b")
    deliver(engine)

    own = [json.loads(visit.body) for visit in receiver.visits if visit.target == "/own"]
    told = [each["data"] for each in own if each["type"] == "budget.used_up"]
    assert [data["budget"].partition(":")[0] for data in told] == [scope]


def test_a_budget_that_refuses_submissions_is_told_once(
    engine: Engine, server: ModelServer, receiver: WebServer, key_file: str
) -> None:
    limited(engine, key_file, "day", tokens=1, on_excess="stop")
    hooked(engine, receiver)
    server.when(PROMPT, says("fine"))
    engine.finish(ASK, prompt=PROMPT)
    # What the client knows is a second old otherwise.
    limited(engine, key_file, "day", tokens=1, on_excess="stop")

    for _ in range(2):
        with pytest.raises(BudgetUsedUp):
            engine.submit(ASK, prompt=PROMPT)
    deliver(engine)

    assert len(receiver.visits) == 1


def test_a_budget_in_which_there_is_room_is_not_told(
    engine: Engine, server: ModelServer, receiver: WebServer, key_file: str
) -> None:
    limited(engine, key_file, "day", tokens=10_000)
    hooked(engine, receiver)

    server.when(PROMPT, says("fine"))
    run = engine.finish(ASK, prompt=PROMPT)

    assert (str(run.status), run.failed_nodes) == ("succeeded", 0)
    assert open_deliveries(engine) == 0
