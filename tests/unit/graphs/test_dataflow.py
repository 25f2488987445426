"""What nodes read and write, by their fields."""

from typing import Any

import pytest

from sleipnir.graphs.dataflow import STATE_UPDATES, chain_reads, reads, templates
from sleipnir.graphs.json_schema import json_schema
from sleipnir.graphs.schema import NODE_TYPES, Graph
from tests.support.graphs import make_graph

END = {"type": "end"}


def graph(**nodes: dict[str, Any]) -> Graph:
    return make_graph({"name": "g", "start": "a", "nodes": nodes})


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        ({"type": "llm", "prompt": "{{p}}", "instructions": "{{i.x[0]}}"}, {"p", "i"}),
        ({"type": "agent", "agent": "b", "prompt": "{{p}} {{gone..}} {{ q }}"}, {"p"}),
        ({"type": "rag", "documents": ["d"]}, {"initial_prompt"}),
        ({"type": "input", "question": "{{q}}", "default": "{{d}}"}, {"q", "d"}),
        (
            {"type": "approval", "question": "{{choice}}", "options": []}
            | {"routes": {}, "on_other": "a", "state_updates": {"k": "{{choice}} {{seen}}"}},
            {"choice", "seen"},
        ),
        ({"type": "end", "output": "{{o}}", "state_updates": {"o": "{{output}}"}}, {"output"}),
    ],
)
def test_reads_are_root_keys_of_all_templates(node: dict[str, Any], expected: set[str]) -> None:
    assert reads(graph(a=node), "a") == expected


@pytest.mark.parametrize("node_type", NODE_TYPES)
def test_a_field_that_is_documented_as_a_template_is_one(node_type: str) -> None:
    fields = json_schema()["$defs"][NODE_TYPES[node_type].__name__]["properties"]
    documented = {name for name, each in fields.items() if "template" in each["description"]}
    required = {"agent": "b", "script": "s.sh", "documents": ["d"], "options": [], "routes": {}}
    required |= {"on_other": "a", "branch": "b", "as": "item", "collect_into": "k", "over": "{{x}}"}
    given = {name: value for name, value in required.items() if name in fields}
    mappings = NODE_TYPES[node_type].STRICT_EACH
    texts: dict[str, Any] = {name: "{{x}}" for name in documented if name != STATE_UPDATES}
    texts |= {name: {"k": "{{x}}"} for name in mappings}
    texts |= {name: ["{{x}}"] for name in documented & {"attach"}}

    node = graph(a={**given, **texts, "type": node_type}).nodes["a"]

    assert {each.field[0] for each in templates(node)} == documented - {STATE_UPDATES}


def test_an_update_reads_neither_scoped_variables_nor_earlier_updates() -> None:
    updates = {"x": "{{output}}", "y": "{{x}} {{y}}", "z": "{{w}}"}
    node = {"type": "llm", "prompt": "p", "state_updates": updates}

    assert reads(graph(a=node), "a") == {"y", "w"}


def test_a_key_that_the_schema_may_not_fill_counts_as_read() -> None:
    schema = {"properties": {"x": {}}}
    node = {"type": "llm", "prompt": "p", "output_schema": schema, "state_updates": {"y": "{{x}}"}}

    assert reads(graph(a=node), "a") == {"x"}


def test_a_script_may_read_everything() -> None:
    assert reads(graph(a={"type": "script", "script": "s.py"}), "a") is None


def test_a_map_reads_its_list_and_its_window() -> None:
    over = {"type": "map", "over": "{{l}}", "as": "i", "branch": "b", "collect_into": "c"}

    assert reads(graph(a=over), "a") == {"l"}
    assert reads(graph(a={**over, "max_concurrency": 4}), "a") == {"l"}
    assert reads(graph(a={**over, "max_concurrency": "{{w}}"}), "a") == {"l", "w"}


def test_a_chain_reads_what_neither_the_map_nor_the_chain_gives_it() -> None:
    over = {"type": "map", "over": "{{l}}", "as": "i", "branch": "b", "collect_into": "c"}
    first = {"type": "llm", "prompt": "{{i}} {{ctx}}", "state_updates": {"k": ""}, "next": "d"}
    chain = graph(a=over, b=first, d={"type": "llm", "prompt": "{{k}} {{more}}"})

    found = [(node_id, read.key) for node_id, read in chain_reads(chain, chain.nodes["a"])]

    assert found == [("b", "ctx"), ("d", "more")]


def test_declared_writes_are_updates_schema_properties_and_collected_lists() -> None:
    schema = {"properties": {"x": {}}}
    llm = {"type": "llm", "prompt": "", "output_schema": schema, "state_updates": {"y": ""}}
    map_ = {"type": "map", "over": "{{l}}", "as": "i", "branch": "b", "collect_into": "c"}
    nodes = graph(a=llm, m=map_, s={"type": "script", "script": "s.py"}, e=END).nodes

    assert nodes["a"].written_keys() == {"x", "y"}
    assert nodes["m"].written_keys() == {"c"}
    assert nodes["s"].written_keys() == nodes["e"].written_keys() == frozenset()
