"""Which of what models say is the final text of a run, and what a stream of it says."""

from __future__ import annotations

import pytest
import yaml

from sleipnir.scheduler.runs.events import ModelCalled, TextStreamed
from sleipnir.worker.monitor.serving.chat.spoken import SpokenText, spoken_nodes
from tests.support.graphs import make_graph

AGENT = """
name: a
model: openai:m
initial_state: {{draft: "", reply: ""}}
start: first
nodes:
  first: {{type: llm, prompt: p, state_updates: {{draft: "{{{{output}}}}"}}, next: last}}
  last: {{type: llm, prompt: p, {last}}}
  done: {{type: end, {done}}}
"""
REPLY = 'state_updates: {reply: "{{output}}"}, next: done'


@pytest.mark.parametrize(
    ("last", "done", "nodes"),
    [
        (REPLY, 'output: "{{reply}}"', {"last"}),
        (REPLY, 'output: "It is {{reply}}"', set()),
        (REPLY, 'output: "{{draft}}"', set()),
        (REPLY, 'output: "{{reply}}", state_updates: {reply: "other"}', set()),
        (REPLY, 'value: "{{reply}}"', set()),
        ('state_updates: {reply: "{{output}}!"}, next: done', 'output: "{{reply}}"', set()),
        ('state_updates: {reply: "{{output}}"}, next: [done, done2]', 'output: "{{reply}}"', set()),
    ],
)
def test_the_replies_that_are_a_graph_s_final_text(last: str, done: str, nodes: set[str]) -> None:
    text = AGENT.format(last=last, done=done) + "  done2: {type: end}\n"
    graph = make_graph(yaml.safe_load(text))

    assert spoken_nodes(graph) == nodes


def text(node: str, said: str) -> TextStreamed:
    return TextStreamed(node, None, said)


def call(node: str) -> ModelCalled:
    return ModelCalled(node, "m", ())


@pytest.mark.parametrize(
    ("events", "output", "pieces"),
    [
        ([call("n"), text("n", "It "), text("n", "is.")], "It is.", ["It ", "is.", ""]),
        ([call("n"), text("n", "It is")], "It is all.", ["It is", " all."]),
        ([call("n"), text("other", "No")], "Yes", ["Yes"]),
        ([text("n", "See."), call("n"), text("n", "It is.")], "It is.", ["See.", "\n\nIt is.", ""]),
        ([text("n", "It i"), call("n"), text("n", "It is.")], "It is.", ["It i", "\n\nIt is.", ""]),
        ([text("n", "A")], "B", ["A", "\n\nB"]),
        ([], "", [""]),
    ],
)
def test_a_stream_says_all_replies_and_ends_with_the_last(
    events: list[ModelCalled | TextStreamed], output: str, pieces: list[str]
) -> None:
    spoken = SpokenText({"n"})

    said = [spoken.add(event) for event in events]

    assert [*filter(None, said), spoken.rest_of(output)] == pieces
