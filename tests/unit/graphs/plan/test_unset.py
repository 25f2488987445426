"""Ways on which a key is read that nothing has set."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.plan.unset import unset_reads

HEAD = "name: a\nmodel: openai:gpt-4o-mini\nstart: ask\nnodes:\n  done: {type: end}\n"
ASK = "  ask: {type: llm, prompt: hi, state_updates: {topic: '{{output}}'}, next: %s}\n"
ROUTES = "[{when: topic == 'a', to: more}, {to: tell}]"
MORE = "  more: {type: llm, prompt: more, state_updates: {facts: '{{output}}'}, next: tell}\n"
SURE = """  ask: {type: llm, prompt: hi, next: [{when: sure > 1, to: more}, {to: done}],
        output_schema: {type: object, %s properties: {sure: {type: number}}}}
  tell: {type: set, values: {sure: '1'}, next: done}
"""
TELL = "  tell: {type: llm, prompt: 'Tell {{facts}}', next: done}\n"
UNSET = [("tell", "facts", ("ask", "tell"))]


def found(directory: Path, graph: str) -> list[tuple[str, str, tuple[str, ...]]]:
    (directory / "a").mkdir()
    (directory / "a" / "graph.yaml").write_text(graph)
    agent = load_agent(directory / "a")
    assert agent.graph is not None, agent.findings
    return [(read.node_id, read.key, read.way) for read in unset_reads(agent.graph, {"seed"})]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        pytest.param(ASK % ROUTES + MORE + TELL, UNSET, id="one of two ways sets it"),
        pytest.param(ASK % "more" + MORE + TELL, [], id="the only way sets it"),
        pytest.param(ASK % "[more, beside]" + MORE + TELL
                     + "  beside: {type: set, values: {x: '1'}, next: tell}\n", [],
                     id="side by side"),
        pytest.param(ASK % "[{when: has(facts), to: tell}, {to: more}]" + MORE + TELL, [],
                     id="asked for by `has`"),
        pytest.param(ASK % ROUTES + MORE + TELL.replace("facts", "seed"), [], id="seeded"),
        pytest.param(ASK % ROUTES.replace("tell", "act") + MORE + TELL
                     + "  act: {type: script, script: act.sh, next: tell}\n", [],
                     id="a script may set anything"),
        pytest.param(ASK % ROUTES + MORE + TELL.replace("llm, prompt: 'Tell {{facts}}'",
                     "set, values: {x: size(facts) > 1}"), UNSET, id="an expression"),
        pytest.param(SURE % "required: [sure]," + MORE, [], id="a reply has to have it"),
        pytest.param(SURE % "" + MORE, [("ask", "sure", ("ask",))], id="a reply may have it"),
    ],
)  # fmt: skip
def test_a_key_that_only_other_ways_set(
    tmp_path: Path, graph: str, expected: list[tuple[str, str, tuple[str, ...]]]
) -> None:
    assert found(tmp_path, HEAD + graph) == expected
