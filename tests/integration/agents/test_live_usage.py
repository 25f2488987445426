"""What a run has used is that of all below it, as it is used."""

from __future__ import annotations

import pytest

from tests.support.conversations import converses
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, calls, says
from tests.support.supervising import collects_all, spawns

GRAPH = """
start: lead
nodes:
  lead: {type: agent, agent: boss, prompt: Lead., next: done, state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""
BOSS = "model: openai:m\ncan_spawn_agents: true\n"
WORKER = "instructions: You work.\n"
ASK = calls(("user__input", {"question": "How deep?"}))


def used(engine: Engine, root: str) -> list[int]:
    """What each run has used, from the root down."""
    found, run_id = [], root
    while True:
        found.append(engine.run(run_id).usage.prompt_tokens)
        below = engine.queries.children(run_id)
        if not below:
            return found
        run_id = below[0].run_id


@pytest.fixture
def tree(engine: Engine, server: ModelServer) -> str:
    """A run of a graph whose agent leads one that has asked a person."""
    engine.write_normal("boss", BOSS)
    engine.write_normal("worker", WORKER)
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Led."))
    converses(server, "Dig.", ASK, says("Dug."))
    run_id = engine.submit(GRAPH)
    engine.drive()
    return run_id


def test_usage_counts_in_all_runs_above_as_it_comes_and_once(engine: Engine, tree: str) -> None:
    assert used(engine, tree) == [30, 30, 10]

    (question,) = engine.inbox()
    engine.client.answer(question.run_id, "2 m")
    engine.drive()

    assert engine.run(tree).output == "Led."
    assert used(engine, tree) == [50, 50, 20]
    (step, _) = list(engine.queries.checkpoints(tree))[-2:]
    assert step.nodes["lead"]["usage"][0] == 50
    assert_consistent(engine.redis, runs=3)


def test_what_a_cancelled_child_has_used_counts(engine: Engine, tree: str) -> None:
    engine.client.cancel(tree)
    engine.drive()

    assert used(engine, tree) == [30, 30, 10]
    assert_consistent(engine.redis, runs=3)
