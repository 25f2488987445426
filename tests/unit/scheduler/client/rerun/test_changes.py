"""Which nodes another form of an agent changes, and where a run goes on for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from textwrap import dedent
from typing import Any

import pytest
import yaml

from sleipnir.graphs.schema import Route, Switch
from sleipnir.scheduler.client.rerun.changes import (
    AgentForm,
    Changes,
    changes_between,
    step_before,
)
from sleipnir.scheduler.runs.model import Checkpoint
from tests.support.graphs import make_graph

GRAPH = """
    name: tested
    model: openai:gpt-4o-mini
    initial_state: {n: 1, items: [1]}
    start: ask
    nodes:
      ask: {type: llm, prompt: "{{initial_prompt}}", tools: [search], next: each}
      each: {type: map, over: "{{items}}", as: item, branch: one, collect_into: all, next: work}
      one: {type: script, script: scripts/one.sh}
      work: {type: script, script: scripts/work.py, next: child}
      child: {type: agent, agent: other, prompt: "{{n}}", next: done}
      done: {type: end}
"""
FILES = {
    "graph.yaml": "1",
    "scripts/one.sh": "1",
    "scripts/work.py": "1",
    "scripts/common.py": "1",
    "functions/tools/search.py": "1",
    "README.md": "1",
    "tests/all.yaml": "1",
}
OLD: Mapping[str, Any] = yaml.safe_load(dedent(GRAPH))

SPAWNS: Mapping[str, Any] = {**OLD, "can_spawn_agents": True}


def form(graph: Mapping[str, Any], other: str = "1", **files: str) -> AgentForm:
    return AgentForm(make_graph(graph), FILES | files, {"other": other})


def changed(graph: Mapping[str, Any] = OLD, other: str = "1", **files: str) -> Changes:
    return changes_between(form(OLD), form(graph, other, **files))


def with_node(name: str, **fields: Any) -> dict[str, Any]:
    return {**OLD, "nodes": {**OLD["nodes"], name: {**OLD["nodes"][name], **fields}}}


@pytest.mark.parametrize(
    ("changes", "nodes"),
    [
        (lambda: changed(), set()),
        (lambda: changed(with_node("ask", prompt="Now: {{initial_prompt}}")), {"ask"}),
        (lambda: changed(with_node("ask", description="for people")), set()),
        (lambda: changed({**OLD, "description": "for people"}), set()),
        (lambda: changed(**{"graph.yaml": "2", "README.md": "2", "tests/all.yaml": "2"}), set()),
        (lambda: changed(**{"scripts/work.py": "2"}), {"work"}),
        (lambda: changed(**{"scripts/one.sh": "2"}), {"one", "each"}),
        (lambda: changed(**{"scripts/common.py": "2"}), {"ask", "each", "one", "work"}),
        (lambda: changed(**{"functions/tools/search.py": "2"}), {"ask"}),
        (lambda: changed(other="2"), {"child"}),
        (lambda: changed({**OLD, "model": "openai:gpt-5"}), {"ask"}),
        (lambda: changed({**OLD, "can_spawn_agents": True}), {"ask"}),
        (lambda: changes_between(form(SPAWNS), form(SPAWNS, "2")), {"ask", "child"}),
        (lambda: changed({**OLD, "reducers": {"all": "append"}}), set(OLD["nodes"])),
    ],
)
def test_a_node_is_changed_by_what_it_reads(
    changes: Callable[[], Changes], nodes: set[str]
) -> None:
    assert changes().nodes == nodes


def deciding(**fields: Any) -> AgentForm:
    """An agent whose first node decides where the run goes."""
    routes = [Route(when="x > 1", to="a", max=2), Route(to="z")]
    first = {"type": "set", "values": {"x": "n + 1", "y": "x"}, "next": routes, **fields}
    nodes = {"gate": first, "a": {"type": "end"}, "z": {"type": "end"}}
    return form({"name": "tested", "start": "gate", "nodes": nodes})


@pytest.mark.parametrize(
    "fields",
    [
        {"next": [Route(when="x > 2", to="a", max=2), Route(to="z")]},
        {"next": [Route(when="x > 1", to="a", max=3), Route(to="z")]},
        {"next": [Route(when="x > 1", to="z", max=2), Route(to="z")]},
        {"next": Switch(switch="x", cases={"1": "a"}, default="z")},
        {"values": {"y": "x", "x": "n + 1"}},
        {"values": {"x": "n + 1", "y": "x + 1"}},
    ],
)
def test_what_a_node_decides_by_is_part_of_it(fields: dict[str, Any]) -> None:
    assert changes_between(deciding(), deciding(**fields)).nodes == {"gate"}


def test_one_and_true_are_different_values() -> None:
    values = changes_between(deciding(values={"x": 1}), deciding(values={"x": True}))
    state = changed({**OLD, "initial_state": {"n": True, "items": [1], "none": None}})

    assert values.nodes == {"gate"}
    assert state.state == {"n": True, "none": None}


def test_other_values_to_begin_with_are_told_apart_from_other_beginnings() -> None:
    other = changed({**OLD, "initial_state": {"n": 2, "items": [1], "more": True}})
    less = changed({**OLD, "initial_state": {"n": 1}})

    assert (other.state, other.elsewhere, other.nodes) == ({"n": 2, "more": True}, False, set())
    assert less.elsewhere
    assert changed({**OLD, "start": "work"}).elsewhere


def history(*steps: str) -> list[Checkpoint]:
    nodes = [(), *((step,) for step in steps)]
    return [
        Checkpoint(number, 0, {}, (), {name: {} for name in names})
        for number, names in enumerate(nodes)
    ]


def test_a_run_goes_on_before_the_first_changed_node_that_it_visited() -> None:
    work = changed(**{"scripts/work.py": "2", "functions/tools/search.py": "2"})

    assert step_before(work, history("ask", "each", "work", "done"), ()) == 0
    assert step_before(work, history("each", "work", "each", "work"), ()) == 1
    assert step_before(work, history("each", "done"), ()) is None
    # A node that failed is in no step that was finished.
    assert step_before(work, history("each"), ("work",)) == 1
    state = changed({**OLD, "initial_state": {"n": 2, "items": [1]}})
    assert step_before(state, history("each"), ()) == 0
