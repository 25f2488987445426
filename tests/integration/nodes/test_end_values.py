"""Results that are values: of end nodes, of children for their parents, in documents."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.scheduler.views.documents import run_document
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, says

END = """
start: z
initial_state: {labels: [{label: a, sure: true}], n: 1.5, text: word}
settings: {stringify_state_updates: true}
nodes:
  z: {type: end%s}
"""
PARENT = """
model: openai:m
start: ask
nodes:
  ask:
    type: agent
    agent: kid
    prompt: go
    state_updates: {got: "{{output}}", first: "{{output.label}}"}
    next: z
  z: {type: end, output: "{{got.label}}, {{first}}", value: "{{got}}"}
"""
KID = """
start: z
initial_state: {found: {label: billing, sure: true}}
nodes:
  z: {type: end, output: "It is about billing.", value: "{{found}}"}
"""
SCHEMA = """
    output_schema:
      type: object
      properties: {label: {enum: [billing, other]}}
      required: [label]
"""


@pytest.mark.parametrize(
    ("fields", "output", "value"),
    [
        (', value: "{{labels}}"', '[{"label":"a","sure":true}]', [{"label": "a", "sure": True}]),
        (', value: "{{labels[0].sure}}", output: "{{n}}"', "1.5", True),
        (', value: "{{n}}"', "1.5", 1.5),
        (', value: "{{text}} {{n}}"', "word 1.5", "word 1.5"),
        (', value: "{{missing}}"', "", ""),
        (', output: "{{text}}"', "word", None),
        ("", "", None),
    ],
)
def test_an_end_has_a_value_and_a_text(
    engine: Engine, fields: str, output: str, value: Any
) -> None:
    run = engine.finish(END % fields)

    assert (run.output, run.value) == (output, value)
    document = run_document(run, {}, steps=1, now_ms=0)
    assert (document["output"], document["value"]) == (output, value)


def test_a_parent_gets_the_value_with_its_type(engine: Engine) -> None:
    engine.write("kid", KID)

    run = engine.finish(PARENT)

    assert run.output == "billing, billing"
    assert run.value == {"label": "billing", "sure": True}
    assert "label" not in engine.state(run.run_id)


def test_a_schema_takes_the_value_before_the_text(engine: Engine, server: ModelServer) -> None:
    engine.write("kid", KID)
    graph = PARENT.replace("    next: z\n", f"{SCHEMA.rstrip()}\n    next: z\n", 1)

    run = engine.finish(graph)

    assert run.output == "billing, billing"
    assert engine.state(run.run_id)["label"] == "billing"
    assert server.requests == []


def test_a_value_that_does_not_fit_leaves_it_to_the_text(
    engine: Engine, server: ModelServer
) -> None:
    engine.write("kid", KID.replace("label: billing", "label: invoices"))
    server.script.add(says('{"label": "billing"}'))
    graph = PARENT.replace("    next: z\n", f"{SCHEMA.rstrip()}\n    next: z\n", 1)

    run = engine.finish(graph)

    assert run.output == "billing, billing"
    assert "It is about billing." in server.requests[0].prompt
