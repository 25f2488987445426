"""What retries cost: nothing is paid for twice, and budgets hold for all tries together."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.client.limits.report import report
from sleipnir.scheduler.errors import SubmissionRefused
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, calls, fails, says
from tests.support.redis_server import RedisServer

MODEL = "openai:home-made"
TWO = f"""
model: "{MODEL}"
start: first
settings: {{tolerate_failures: false}}
nodes:
  first: {{type: llm, prompt: "FIRST {{{{initial_prompt}}}}", max_attempts: 1, next: second,
           state_updates: {{a: "{{{{output}}}}"}}}}
  second: {{type: llm, prompt: "SECOND {{{{a}}}}", max_attempts: 1, next: done,
            state_updates: {{b: "{{{{output}}}}"}}}}
  done: {{type: end, output: "{{{{a}}}} {{{{b}}}}"}}
"""
PARENT = """
start: ask
settings: {tolerate_failures: false}
nodes:
  ask: {type: agent, agent: child, prompt: "{{initial_prompt}}", next: done,
        state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""
LOST_KEY = fails(401, "no such key")


def asked(server: ModelServer, text: str) -> int:
    """How many requests had a prompt that begins so."""
    return sum(request.messages[0]["content"].startswith(text) for request in server.requests)


@pytest.fixture
def priced(server: ModelServer) -> ModelServer:
    """Each reply costs a cent: 100 tokens."""
    server.when("FIRST", says("one", prompt_tokens=60, completion_tokens=40))
    return server


def configure(engine: Engine, **budgets: Any) -> None:
    price = {"prompt": 100.0, "completion": 100.0}
    engine.configure(models={"prices": {MODEL: price}, "max_output_tokens": 40, "budgets": budgets})


def test_a_run_stopped_by_its_budget_goes_on_with_one_of_its_own(
    engine: Engine, priced: ModelServer, redis_server: RedisServer
) -> None:
    priced.when("SECOND", says("two", prompt_tokens=60, completion_tokens=40))
    configure(engine, run={"usd": 0.011})
    failed = engine.finish(TWO, prompt="x")
    message = engine.failure(failed.run_id).message
    assert f"budget 'run:{failed.run_id}' does not allow" in message
    assert "sleipnir retry RUN --budget USD" in message

    engine.client.retry(failed.run_id)  # with the same budget
    engine.drive()
    assert asked(priced, "SECOND") == 0
    with pytest.raises(SubmissionRefused, match=r"has used \$0.0100 in all its tries"):
        engine.client.retry(failed.run_id, budget_usd=0.009)
    at = ["--redis", redis_server.url, failed.run_id, "--budget", "0.05"]
    said = CliRunner().invoke(cli, ["retry", *at])
    engine.drive()

    assert said.exit_code == 0
    done = engine.run(failed.run_id)
    assert done.output == "one two"
    assert done.usage.cost_usd == pytest.approx(0.02)
    assert (asked(priced, "FIRST"), asked(priced, "SECOND")) == (1, 1)
    commands = LimitCommands(engine.store)
    _, line = report(commands.limiter.queries, commands.rules()).budgets
    assert (line.name, line.usd, line.origin) == (f"run:{done.run_id}", 0.05, "retry --budget")
    assert line.spent_usd == pytest.approx(0.02)
    assert engine.client.fork(done.run_id, 1).context.budget_usd is None


def test_what_was_spent_without_a_budget_counts_and_children_come_under_it(
    engine: Engine, priced: ModelServer
) -> None:
    priced.when("SECOND", LOST_KEY)
    configure(engine)
    engine.write("child", TWO)
    failed = engine.finish(PARENT, prompt="x")
    assert failed.usage.cost_usd == pytest.approx(0.01)

    engine.client.retry(failed.run_id, budget_usd=0.011)
    engine.drive()

    assert f"budget 'run:{failed.run_id}' does not allow" in engine.failure(failed.run_id).message
    assert (asked(priced, "FIRST"), asked(priced, "SECOND")) == (1, 1)


def test_a_child_goes_on_as_its_agent_is_now_and_its_usage_counts_once(
    engine: Engine, priced: ModelServer
) -> None:
    priced.when("SECOND", LOST_KEY)
    priced.when("MENDED", says("two", prompt_tokens=60, completion_tokens=40))
    configure(engine)
    engine.write("child", TWO)
    failed = engine.finish(PARENT, prompt="x")
    (child,) = engine.queries.children(failed.run_id)
    engine.client.retry(failed.run_id)  # the same agents: it fails again
    engine.drive()
    engine.write("child", TWO.replace("SECOND", "MENDED"))

    engine.client.retry(failed.run_id, agent="current")
    assert_consistent(engine.redis, runs=2)
    engine.drive()

    done, again = engine.run(failed.run_id), engine.run(child.run_id)
    assert (done.output, done.tries, again.tries) == ("one two", 3, 3)
    assert again.digest != child.digest
    assert asked(priced, "FIRST") == 1
    # Of what the child used in all its tries, its parent was told in parts.
    assert again.usage.cost_usd == pytest.approx(0.02)
    assert done.usage == again.usage
    assert len(engine.queries.children(failed.run_id)) == 1


def test_a_node_that_failed_in_its_ninth_turn_is_all_that_is_paid_for_again(
    engine: Engine, server: ModelServer
) -> None:
    turn = calls(("look", {"where": "there"}))
    tools = '''
def look(where: str) -> str:
    """Looks."""
    return "nothing"
'''
    graph = TWO.replace('prompt: "SECOND', 'tools: [look], prompt: "SECOND')
    server.script.add(says("one"), *[turn] * 8, LOST_KEY, *[turn] * 8, says("two"))
    failed = engine.finish(graph, {"tools.py": tools}, prompt="x")
    assert "no such key" in engine.failure(failed.run_id).message
    before = len(server.requests)

    engine.client.retry(failed.run_id)
    engine.drive()

    assert engine.run(failed.run_id).output == "one two"
    assert (before, len(server.requests)) == (10, 19)
    assert asked(server, "FIRST") == 1
    assert_consistent(engine.redis, runs=1)
