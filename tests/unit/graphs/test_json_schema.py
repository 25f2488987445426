"""The exported JSON Schema agrees with the loader on what a graph.yaml may look like."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.json_schema import json_schema
from sleipnir.graphs.schema import NODE_TYPES

GOOD = """
name: demo
x-owner: me
version: 1.0
description:
temperature: 0.5
stop: END
params: {user: a}
variables: [{name: a, description: d, default: 5, x-note: n}]
settings: {max_concurrency: 2, timeout: null, x-why: slow}
initial_state: {l: [1, {k: null}]}
reducers: {r: append}
start: m
nodes:
  m: {type: map, over: "{{l}}", as: item, branch: s, collect_into: r, on_error: skip, next: a}
  s: {type: script, script: a.sh, timeout: 0.5}
  a: {type: approval, question: q, options: [], routes: {}, on_other: i, next: null}
  i: {type: input, question: q, validation: len(input) > 1, next: [g, l]}
  g: {type: agent, agent: x, prompt: p, output_schema: {type: object}, next: e}
  l: {type: llm, prompt: p, instructions: {file: graph.yaml}, tools: [], seed: 1, stop: [a, b],
      params: {user: null, k: 5},
      examples: [{user: a, assistant: b}], check: [{when: size(output) > 9, say: "No {{output}}."}],
      max_checks: 0, fallback: e, enabled_skills: [s], next: k, x-pos: 1}
  k: {type: rag, documents: [a.md], top_k: 3, next: v, state_updates: {c: "{{output}}"}}
  v: {type: set, values: {n: visit, l: [1]}, next: [{when: n < 3, to: [g, l], max: 2}, {to: w}]}
  w: {type: set, next: {switch: n, cases: {"1": e, "2": [g, l]}, default: e}}
  e: {type: end, id: e, output: "{{r}}"}
"""

# What no list of strings may stand for.
NOT_A_LIST: list[tuple[str | int, ...]] = [
    ("zzz",),
    ("name",),
    ("version",),
    ("temperature",),
    ("settings", "zzz"),
    ("settings", "timeout"),
    ("reducers", "r"),
    ("variables", 0, "default"),
    ("nodes", "e", "type"),
    ("nodes", "e", "prompt"),
    ("nodes", "l", "prompt"),
    ("nodes", "l", "output_schema"),
    ("nodes", "m", "on_error"),
    ("nodes", "s", "timeout"),
]


def changed(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load(GOOD)
    place: Any = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return data


def loading_errors(data: dict[str, Any], directory: Path) -> list[str]:
    (directory / "graph.yaml").write_text(yaml.safe_dump(data, sort_keys=False))
    return [finding.code for finding in load_agent(directory).findings]


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    return Draft202012Validator(json_schema())


def test_it_is_a_valid_schema_of_its_dialect() -> None:
    schema = json_schema()

    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_both_accept_every_node_type(validator: Draft202012Validator, tmp_path: Path) -> None:
    data = yaml.safe_load(GOOD)

    assert {node["type"] for node in data["nodes"].values()} == set(NODE_TYPES)
    assert [error.message for error in validator.iter_errors(data)] == []
    assert loading_errors(data, tmp_path) == []


@pytest.mark.parametrize("path", NOT_A_LIST, ids=lambda path: ".".join(map(str, path)))
def test_both_refuse_the_same(
    validator: Draft202012Validator, tmp_path: Path, path: tuple[str | int, ...]
) -> None:
    data = changed(path, ["wrong"])

    assert not validator.is_valid(data)
    assert loading_errors(data, tmp_path)


@pytest.mark.parametrize("field", ["name", "start", "nodes"])
def test_both_require_the_same(validator: Draft202012Validator, tmp_path: Path, field: str) -> None:
    data = yaml.safe_load(GOOD)
    del data[field]

    assert not validator.is_valid(data)
    assert "E007" in loading_errors(data, tmp_path)


@pytest.mark.parametrize(
    ("node_id", "node"),
    [
        (".e", {"type": "end"}),
        ("a b", {"type": "end"}),
        ("x" * 129, {"type": "end"}),
        ("n", {}),
        ("n", {"type": "llm"}),
        ("n", {"type": "rag", "documents": []}),
        ("n", {"type": "llm", "prompt": "p", "max_attempts": 0}),
        ("n", {"type": "llm", "prompt": {"file": 5}}),
        ("n", {"type": "llm", "prompt": {"text": "p"}}),
        ("n", {"type": "llm", "prompt": "p", "seed": 0.5}),
        ("n", {"type": "llm", "prompt": "p", "examples": [{"user": "a"}]}),
        ("n", {"type": "llm", "prompt": "p", "check": [{"when": "a", "say": "b", "c": "d"}]}),
        ("n", {"type": "llm", "prompt": "p", "stop": list("abcde")}),
        ("n", {"type": "llm", "prompt": "p", "params": {"stop": "a"}}),
        ("n", {"type": "set", "next": [{"when": "n > 1"}]}),
        ("n", {"type": "set", "next": [{"to": "e"}, "e"]}),
        ("n", {"type": "set", "next": [{"when": True, "to": "e"}]}),
        ("n", {"type": "set", "next": [{"when": "n > 1", "to": "e", "max": 0}]}),
        ("n", {"type": "set", "next": {"switch": "n"}}),
        ("n", {"type": "set", "next": {"switch": "n", "cases": {}}}),
        ("n", {"type": "set", "next": {"switch": "n", "cases": {"1": 1}}}),
        ("n", {"type": "set", "next": {"switch": "n", "cases": {"1": "e"}, "else": "e"}}),
        ("n", None),
    ],
)
def test_both_refuse_the_same_nodes(
    validator: Draft202012Validator, tmp_path: Path, node_id: str, node: Any
) -> None:
    data = changed(("nodes", node_id), node)

    assert not validator.is_valid(data)
    assert loading_errors(data, tmp_path)


def test_every_field_says_what_it_is() -> None:
    schema = json_schema()
    sections = [schema, *schema["$defs"].values()]

    silent = [
        f"{section['title']}.{name}"
        for section in sections
        for name, field in section["properties"].items()
        if not field.get("description")
    ]

    assert silent == []
