"""What replies that fit an `output_schema` write to the state."""

from __future__ import annotations

import json

import pytest

from sleipnir.scheduler.runs.events import StepCommitted
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, fails, says

ASKS = """
model: openai:m
variables: [{name: tier, description: of the account, default: free}]
initial_state: {seeded: graph}
reducers: {total: sum}
start: ask
nodes:
  ask:
    type: llm
    prompt: "Rate: {{initial_prompt}}"
    output_schema: {type: object, properties: {rating: {type: integer}}}
    next: note
  note: {type: script, script: s.sh, state_updates: {noted: "yes"}, next: done}
  done: {type: end, output: "{{rating}}"}
"""
ECHO = """
start: z
nodes: {z: {type: end, output: "{{initial_prompt}}"}}
"""
PARENT = """
start: a
initial_state: {owned: 1}
nodes:
  a:
    type: agent
    agent: echo
    prompt: '{"n": 5, "owned": 2, "free": 3}'
    output_schema: {type: object, properties: {n: {type: integer}}}
    next: z
  z: {type: end}
"""


SCRIPT = {"s.sh": "echo '{}'"}


def warnings(engine: Engine, run_id: str) -> list[str]:
    return [text for event in engine.events(run_id, StepCommitted) for text in event.warnings]


@pytest.mark.parametrize("key", ["tier", "seeded", "given", "initial_prompt", "total", "noted"])
def test_a_prompt_that_asks_for_more_keys_changes_no_variable(
    engine: Engine, server: ModelServer, key: str
) -> None:
    server.script.add(says(json.dumps({"rating": 3, key: 1000, "mood": "good"})))

    run = engine.finish(ASKS, SCRIPT, prompt=f"write {key}", state={"given": "caller"})

    state = engine.state(run.run_id)
    assert run.output == "3"
    assert state["mood"] == "good"
    assert state.get(key) != 1000
    assert warnings(engine, run.run_id) == [f"[ask] undeclared key '{key}' of the reply left out"]


def test_a_child_changes_nothing_that_the_schema_does_not_declare(engine: Engine) -> None:
    engine.write("echo", ECHO)

    run = engine.finish(PARENT)

    assert engine.state(run.run_id) == {"initial_prompt": "", "owned": 1, "n": 5, "free": 3}
    assert warnings(engine, run.run_id) == ["[a] undeclared key 'owned' of the reply left out"]


def test_what_a_fork_is_given_belongs_to_its_caller(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("hello"), says('{"rating": 4, "extra": "model"}'))
    graph = ASKS.replace("start: ask", "start: first").replace(
        "nodes:\n", "nodes:\n  first: {type: llm, prompt: p, next: ask}\n"
    )
    first = engine.finish(graph, SCRIPT)

    fork = engine.client.fork(first.run_id, step=0, state={"extra": "caller"})
    engine.drive()

    assert engine.state(fork.run_id)["extra"] == "caller"


def test_what_a_retry_is_given_belongs_to_its_caller(engine: Engine, server: ModelServer) -> None:
    server.script.add(fails(400, "no"), says('{"rating": 4, "extra": "model"}'))
    graph = ASKS.replace("settings:", "x-settings:").replace(
        "reducers:", "settings: {tolerate_failures: false}\nreducers:"
    )
    run_id = engine.finish(graph, SCRIPT).run_id

    engine.client.retry(run_id, state={"extra": "caller"})
    engine.drive()

    assert engine.state(run_id)["extra"] == "caller"
    assert warnings(engine, run_id) == ["[ask] undeclared key 'extra' of the reply left out"]


def test_a_reply_does_not_replace_the_item_of_its_map(engine: Engine, server: ModelServer) -> None:
    server.script.add(says('{"rating": 4, "row": "other"}'))

    run = engine.finish("""
model: openai:m
start: m
initial_state: {rows: [one]}
nodes:
  m: {type: map, over: "{{rows}}", as: row, branch: rate, collect_into: found, next: z}
  rate:
    type: llm
    prompt: "Rate {{row}}"
    output_schema: {type: object, properties: {rating: {type: integer}}}
    next: keep
  keep: {type: set, values: {output: row}}
  z: {type: end, output: "{{found}}"}
""")

    assert run.output == '["one"]'
