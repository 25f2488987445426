"""Model calls of runs under limits: who waits, who fails, and what it costs in Redis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.client.limits.report import report
from sleipnir.scheduler.errors import BudgetUsedUp
from sleipnir.scheduler.runs.events import ReplyLimited
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import BudgetRefused, ModelCallFailed, ModelRequest, Reply
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, fails, says

MODEL = "openai:gpt-4o-mini"
ASK = """
start: ask
nodes:
  ask: {type: llm, prompt: "{{initial_prompt}}", model: "openai:gpt-4o-mini", max_attempts: 1,
        state_updates: {said: "{{output}}"}, next: done}
  done: {type: end, output: "{{said}}"}
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        server.when(lambda _request: True, says("fine"))
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield server


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """A server that has too much to do, once."""
    with ModelServer(fails(429, "slow down", {"Retry-After": "20"}), says("fine")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield server


def reply() -> Reply:
    return Reply({"role": "assistant", "content": "fine"}, Usage(10, 5, 0.0))


def commands_of(engine: Engine) -> LimitCommands:
    return LimitCommands(engine.store)


def go_on(engine: Engine, run_id: str, *, seconds: float = 61) -> str:
    """Let some time pass; the run's status then."""
    for _ in range(round(seconds)):
        engine.clock.move(1)
        engine.tick()
        engine.drive()
    return str(engine.run(run_id).status)


def test_without_configuration_a_call_sends_redis_nothing(engine: Engine) -> None:
    request = ModelRequest(MODEL, [{"role": "user", "content": "x"}])
    caller = Caller("00" * 8, "00" * 8, None, "ask", "00" * 8 + ":1/ask:1:1")
    engine.redis.config_resetstat()

    engine.gate.reserve(request, caller).make(reply, caller)

    stats = cast(dict[str, Any], engine.redis.info("commandstats"))
    assert stats.keys() - {"cmdstat_config|resetstat", "cmdstat_info"} == set()


def test_a_limited_call_is_two_round_trips(engine: Engine) -> None:
    engine.configure(models={"providers": {"openai": {"requests_per_minute": 60}}})
    request = ModelRequest(MODEL, [{"role": "user", "content": "x"}])
    caller = Caller("00" * 8, "00" * 8, None, "ask", "00" * 8 + ":1/ask:1:1")
    engine.gate.reserve(request, caller).make(reply, caller)
    engine.redis.config_resetstat()

    engine.gate.reserve(request, caller).make(reply, caller)

    stats = cast(dict[str, dict[str, int]], engine.redis.info("commandstats"))
    assert stats["cmdstat_evalsha"]["calls"] == 2


def test_a_call_that_must_wait_rests_and_then_goes(engine: Engine, server: ModelServer) -> None:
    engine.configure(models={"providers": {"openai": {"requests_per_minute": 1}}})
    engine.finish(ASK)
    second = engine.submit(ASK)
    engine.drive()

    waiting = str(engine.run(second).status)

    assert (waiting, len(server.requests)) == ("running", 1)
    assert go_on(engine, second, seconds=63) == "succeeded"
    assert len(server.requests) == 2


def test_a_call_that_comes_back_says_that_it_has_waited(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.configure(models={"providers": {"openai": {"requests_per_minute": 1}}})
    reserve, seen = engine.gate.reserve, list[bool]()

    def watch(request: ModelRequest, caller: Caller, **options: Any) -> Any:
        seen.append(caller.has_waited)
        return reserve(request, caller, **options)

    monkeypatch.setattr(engine.gate, "reserve", watch)
    engine.finish(ASK)
    second = engine.submit(ASK)
    engine.drive()

    assert go_on(engine, second, seconds=63) == "succeeded"
    assert seen == [False, False, True]


def test_a_plain_run_fails_as_ever_when_nobody_answers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")

    run = engine.finish(ASK)

    assert "Connection refused" in engine.state(run.run_id)["said"]


def test_a_run_of_a_batch_waits_for_its_provider(engine: Engine, refusing: ModelServer) -> None:
    run_id = engine.submit(ASK, batch="b")
    engine.drive()

    waiting = str(engine.run(run_id).status)

    assert (waiting, len(refusing.requests)) == ("running", 1)
    assert go_on(engine, run_id, seconds=19) == "running"
    assert go_on(engine, run_id, seconds=3) == "succeeded"


def test_the_failure_counts_when_the_max_wait_is_over(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.configure(models={"max_wait_s": 10})
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
    run_id = engine.submit(ASK)
    engine.drive()

    assert go_on(engine, run_id, seconds=8) == "running"
    assert go_on(engine, run_id, seconds=4) == "succeeded"
    assert "Connection refused" in engine.state(run_id)["said"]


def test_a_reply_that_a_budget_limits_is_asked_for_so(engine: Engine, server: ModelServer) -> None:
    engine.configure(models={"budgets": {"run": {"tokens": 2_000}}})

    run = engine.finish(ASK)

    (request,) = server.requests
    (limited,) = engine.events(run.run_id, ReplyLimited)
    assert str(run.status) == "succeeded"
    assert 1_024 <= limited.tokens == request.body["max_completion_tokens"] < 2_000
    assert limited.budget == "run"


def test_room_for_the_thoughts_alone_is_no_room_for_a_reply(engine: Engine) -> None:
    budget = {"day": {"tokens": 5_000}}
    engine.configure(models={"max_output_tokens": 20_000, "budgets": budget})
    caller = Caller("00" * 8, "00" * 8, None, "ask", "00" * 8 + ":1/ask:1:1")

    plain = engine.gate.reserve(ModelRequest("openai:m", [], reasoning_effort="medium"), caller)
    plain.make(reply, caller)

    assert 4_000 < (plain.grant.reply_tokens or 0) < 5_000
    with pytest.raises(BudgetRefused):
        engine.gate.reserve(ModelRequest("openai:m", [], reasoning_effort="high"), caller)


def test_a_reply_that_a_budget_cut_off_says_so(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.configure(models={"budgets": {"run": {"tokens": 2_000}}})
    with ModelServer(says("1", finish="length", completion_tokens=1_900)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")

        run = engine.finish(ASK.replace("next:", "output_schema: {type: integer}, next:"))

    cut = "the reply was cut off after 1900 tokens"
    told = f"{cut}; the budget 'run:{run.run_id}' had no room for more: raise it"
    assert run.output == f"LLM node failed: {told}"


def test_a_price_that_is_not_known_is_said(engine: Engine) -> None:
    engine.configure(models={"budgets": {"day": {"usd": 1}}})
    caller = Caller("00" * 8, "00" * 8, None, "ask", "00" * 8 + ":1/ask:1:1")

    with pytest.raises(ModelCallFailed) as caught:
        engine.gate.reserve(ModelRequest("openai:home-made", []), caller)

    assert "the price of openai:home-made is not known" in caught.value.message


def test_a_reply_that_is_bounded_takes_no_more_of_a_budget(engine: Engine) -> None:
    engine.configure(models={"budgets": {"day": {"tokens": 100}}})
    caller = Caller("00" * 8, "00" * 8, None, "ask", "00" * 8 + ":1/ask:1:1")

    permit = engine.gate.reserve(ModelRequest("openai:m", [], max_tokens=50), caller)

    assert permit.grant.reservation.worst_tokens <= 60
    with pytest.raises(ModelCallFailed, match="budget"):
        engine.gate.reserve(ModelRequest("openai:m", []), caller)


def test_a_paused_run_says_so_and_goes_on_when_resumed(engine: Engine, server: ModelServer) -> None:
    budget = {"tokens": 10, "on_excess": "pause"}
    engine.configure(models={"max_output_tokens": 5, "budgets": {"run": budget}})
    run_id = engine.submit(ASK, prompt="x" * 200)
    engine.drive()
    waits_for = Client.over(engine.store, engine.client.search).waits_for([engine.run(run_id)])

    LimitCommands(engine.store, lambda _seconds: engine.gate.refresh()).set("run.tokens=1000000")
    engine.drive()

    assert waits_for[run_id] == (f"run:{run_id} is paused: sleipnir limits --resume run:{run_id}")
    assert str(engine.run(run_id).status) == "succeeded"


def test_a_budget_that_a_run_waits_for_is_shown_before_it_is_used(
    engine: Engine, server: ModelServer
) -> None:
    budget = {"tokens": 10, "on_excess": "pause"}
    engine.configure(models={"max_output_tokens": 5, "budgets": {"run": budget}})
    run_id = engine.submit(ASK, prompt="x" * 200)
    engine.drive()

    commands = commands_of(engine)
    each, line = report(commands.limiter.queries, commands.rules()).budgets

    assert (each.name, each.tokens, each.origin) == ("run", 10, "configuration")
    assert (line.name, line.spent_tokens, line.waiting) == (f"run:{run_id}", 0, 1)


def test_a_command_pauses_and_resumes_a_provider(engine: Engine, server: ModelServer) -> None:
    commands_of(engine).pause("openai", "maintenance")
    engine.gate.refresh()
    run_id = engine.submit(ASK)
    engine.drive()
    paused = len(server.requests)

    commands_of(engine).resume("openai")
    engine.gate.refresh()
    engine.drive()

    assert (paused, str(engine.run(run_id).status)) == (0, "succeeded")


def test_a_budget_that_stops_refuses_new_runs(engine: Engine, server: ModelServer) -> None:
    engine.configure(models={"budgets": {"day": {"tokens": 10, "on_excess": "stop"}}})
    engine.finish(ASK)
    engine.configure(models={"budgets": {"day": {"tokens": 10, "on_excess": "stop"}}})

    with pytest.raises(BudgetUsedUp, match="budget 'day' is used up"):
        engine.submit(ASK)
