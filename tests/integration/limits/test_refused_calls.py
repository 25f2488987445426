"""Calls that a budget refuses: their run fails, and goes on there once there is room."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.runs.submit import Request
from tests.support.engine import Engine
from tests.support.knowledge import BY_MEANING, LETTERS, embedding
from tests.support.model_server import ModelServer, fails, says

ASK = """
start: ask
nodes:
  ask: {type: llm, prompt: "{{initial_prompt}}", model: "openai:gpt-4o-mini", max_attempts: 1,
        state_updates: {said: "{{output}}"}, next: done}
  done: {type: end, output: "{{said}}"}
"""
FALLBACK = ASK.replace("next: done", "next: done, fallback: done")
MAPPED = """
model: openai:gpt-4o-mini
initial_state: {words: [a, b, c]}
start: each
nodes:
  each: {type: map, over: "{{words}}", as: word, branch: ask, collect_into: found,
         on_error: collect, next: z}
  ask: {type: llm, prompt: "{{word}}", max_attempts: 1}
  z: {type: end}
"""
PARENT = "start: a\nnodes: {a: {type: agent, agent: asks, prompt: x, next: z}, z: {type: end}}"


@pytest.mark.parametrize("graph", [ASK, FALLBACK, MAPPED])
def test_no_node_tolerates_a_call_that_a_budget_refuses(
    engine: Engine, server: ModelServer, graph: str
) -> None:
    engine.configure(models={"budgets": {"run": {"tokens": 10}}})

    run = engine.finish(graph)

    failure = engine.failure(run.run_id)
    assert (str(run.status), failure.code) == ("failed", "R025")
    assert failure.node == ("each" if graph == MAPPED else "ask")
    assert f"budget 'run:{run.run_id}' does not allow this model call" in failure.message
    assert "its limit is 10 tokens" in failure.message
    assert server.requests == []


@pytest.mark.parametrize("fields", ["", "fallback: z, max_attempts: 2, "])
def test_a_child_s_refused_call_fails_its_parent(
    engine: Engine, server: ModelServer, fields: str
) -> None:
    engine.configure(models={"budgets": {"run": {"tokens": 429}}})  # a word of passing failures
    engine.write("asks", ASK)

    run = engine.finish(PARENT.replace("next:", f"{fields}next:"))

    failure = engine.failure(run.run_id)
    assert (failure.code, "R025" in failure.message) == ("R015", True)


ITEMS = """
model: openai:gpt-4o-mini
max_tokens: 100
initial_state: {words: [a, b, c, d]}
start: each
nodes:
  each: {type: map, over: "{{words}}", as: word, branch: ask, collect_into: found,
         max_concurrency: 1, on_error: collect, next: z}
  ask: {type: llm, prompt: "{{word}}"}
  z: {type: end, output: "{{found}}"}
"""
OF_CHILDREN = ITEMS.replace('llm, prompt: "{{word}}"', 'agent, agent: asks, prompt: "{{word}}"')


@pytest.mark.parametrize(("graph", "code"), [(ITEMS, "R025"), (OF_CHILDREN, "R015")])
def test_a_map_that_a_budget_stopped_goes_on_at_that_item(
    engine: Engine, server: ModelServer, graph: str, code: str
) -> None:
    server.when("b", fails(400, "no such letter"))
    server.when(lambda _: True, says("fine", prompt_tokens=20, completion_tokens=80))
    engine.configure(models={"max_output_tokens": 100, "budgets": {"run": {"tokens": 250}}})
    engine.write("asks", ASK.replace("next:", "max_tokens: 100, next:"))
    run_id = engine.submit(graph)
    engine.drive()
    refused = engine.failure(run_id)
    engine.configure(models={"budgets": {"run": {"tokens": 100_000}}})

    engine.client.retry(run_id)
    engine.drive()

    assert (refused.code, refused.node) == (code, "each")
    assert refused.message.startswith("map 'each' item [3] failed: ")
    assert "does not allow this model call" in refused.message
    assert str(engine.run(run_id).status) == "succeeded"
    assert [request.prompt for request in server.requests] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("child", ["", "asks"])
def test_an_item_goes_on_at_the_node_of_its_chain_that_a_budget_stopped(
    engine: Engine, server: ModelServer, child: str
) -> None:
    then = '{type: llm, prompt: "{{seen}}", fallback: last}'
    if child:
        then = "{type: agent, agent: asks, prompt: x, fallback: last}"
        engine.write(child, ASK.replace("next:", "max_tokens: 100, next:"))
    chained = ITEMS.replace('"{{word}}"}', '"{{word}}", next: then, state_updates: {seen: x}}')
    graph = chained.replace("  z:", f"  then: {then}\n  last: {{type: set}}\n  z:")
    server.when(lambda _: True, says("fine", prompt_tokens=20, completion_tokens=80))
    engine.configure(models={"max_output_tokens": 100, "budgets": {"run": {"tokens": 350}}})
    run_id = engine.submit(graph)
    engine.drive()
    refused = engine.failure(run_id)
    engine.configure(models={"budgets": {"run": {"tokens": 100_000}}})

    engine.client.retry(run_id)
    engine.drive()

    assert refused.code == ("R015" if child else "R025")
    assert refused.message.startswith("map 'each' item [1] failed: at 'then': ")
    assert engine.run(run_id).output == '["fine","fine","fine","fine"]'
    assert [request.prompt for request in server.requests] == [*"axbxcxdx"]


def test_a_call_that_a_budget_refused_is_all_that_is_made_again(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(models={"budgets": {"run": {"tokens": 250}}})
    server.script.add(says("It is 5.", prompt_tokens=20, completion_tokens=80), says("5"))
    schema = "max_tokens: 100, output_schema: {type: integer}, fallback: done, next"
    run_id = engine.submit(ASK.replace("next", schema), prompt="How many?")
    engine.drive()
    refused = engine.failure(run_id)
    engine.configure(models={"budgets": {"run": {"tokens": 100_000}}})

    engine.client.retry(run_id)
    engine.drive()

    assert (refused.code, refused.node) == ("R025", "ask")  # it was the extractor's call
    assert engine.run(run_id).output == "5"
    assert [request.prompt.startswith("How many?") for request in server.requests] == [True, False]


def test_a_build_that_a_budget_refuses_is_no_fault_of_the_knowledge_base(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(models={"budgets": {"run": {"tokens": 1}}})
    engine.write("asks", BY_MEANING, LETTERS)
    parent = engine.finish(PARENT.replace("next:", "fallback: z, next:"))
    alone = engine.client.submit(engine.client.prepare("asks"), Request(prompt="a"))
    engine.drive()
    refused = engine.failure(alone)
    engine.configure(models={"budgets": {"run": {"tokens": 100}}})  # embeddings have no reply
    embedding(server)

    engine.client.retry(alone)
    engine.drive()

    assert "R025: budget 'run:" in engine.failure(parent.run_id).message
    assert (refused.code, refused.node) == ("R025", "look_up")
    assert engine.run(alone).output == '["./docs/a.md"]'
