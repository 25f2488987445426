"""Prompts and instructions that are in files of the agent's directory."""

from __future__ import annotations

from collections.abc import Mapping
from shutil import rmtree

import pytest

from sleipnir.graphs.errors import InvalidAgent
from sleipnir.scheduler.client.rerun.changes import AgentForm, changes_between, form_of
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, says

GRAPH = """
model: openai:m
initial_state: {topic: tea}
start: plan
nodes:
  plan: {type: llm, prompt: {file: prompts/plan.md}, instructions: {file: role.md}, next: note}
  note: {type: script, script: note.sh, next: sum}
  sum: {type: llm, prompt: "Sum up.", next: done}
  done: {type: end}
"""
FILES = {
    "prompts/plan.md": "Plan\n{{topic}}.\n",
    "role.md": "You plan {{topic}}.",
    "note.sh": "echo '{}'",
}


def test_a_worker_has_the_texts_of_the_version_that_was_submitted(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("a"), says("b"))
    run_id = engine.submit(GRAPH, FILES)
    rmtree(engine.agents_directory / "tested")

    engine.drive()

    assert engine.run(run_id).status == "succeeded"
    assert [(each["role"], each["content"]) for each in server.requests[0].messages] == [
        ("system", "You plan tea."),
        ("user", "Plan\ntea."),
    ]


def form(engine: Engine, files: Mapping[str, str]) -> AgentForm:
    engine.write("tested", GRAPH, {**FILES, **files})
    digest = engine.client.prepare("tested").digest
    return form_of(engine.store.bundles, digest, {})


@pytest.mark.parametrize(
    ("files", "nodes"),
    [
        ({"prompts/plan.md": "Think about {{topic}}."}, {"plan"}),
        ({"role.md": "You think."}, {"plan"}),
        ({"role.md": "You plan {{topic}}.\n"}, set()),
        ({"other.md": "For all."}, {"plan", "note", "sum"}),
    ],
)
def test_a_changed_text_is_a_change_of_its_node(
    engine: Engine, files: Mapping[str, str], nodes: set[str]
) -> None:
    assert changes_between(form(engine, {}), form(engine, files)).nodes == nodes


def test_an_agent_whose_text_is_missing_does_not_run_even_without_validation(
    engine: Engine,
) -> None:
    graph = f"settings: {{validate_before_run: false}}{GRAPH}"

    with pytest.raises(InvalidAgent, match=r"E201 .*prompt file 'prompts/plan.md' not found"):
        engine.submit(graph, {"note.sh": "echo '{}'"})
