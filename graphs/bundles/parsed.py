"""A graph as plain data, which a worker can load without parsing and checking a file.

It is in the bundle beside the files, and was checked before it was packed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from sleipnir.graphs.normal_agent import NormalAgent, TurnNode
from sleipnir.graphs.schema import (
    NODE_TYPES,
    BaseNode,
    FormField,
    Graph,
    GraphSettings,
    Route,
    Section,
    Switch,
    Variable,
)

PARSED = "parsed-graph.json"
# Raise it when the meaning of a field changes: graphs in another form are read from their files.
# Adding or removing fields does not need it: what does not fit is read from its file too.
_FORM = 1

_NODES: Mapping[str, type[BaseNode]] = {**NODE_TYPES, "turn": TurnNode}


def parsed_text(graph: Graph) -> bytes:
    """Encode a graph, without fields that have their defaults."""
    return json.dumps({"form": _FORM, "graph": _plain(graph)}, separators=(",", ":")).encode()


def parsed_graph(root: Path) -> Graph | None:
    """Return the graph in an unpacked bundle; None if there is none, or one of another version."""
    try:
        found = json.loads((root / PARSED).read_bytes())
    except FileNotFoundError:
        return None
    if found["form"] != _FORM:
        return None
    try:
        return _graph(found["graph"])
    except (KeyError, TypeError):  # types or fields that this version does not have
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, Section):
        return {
            each.name: _plain(given)
            for each in fields(value)
            if (given := getattr(value, each.name)) != _default(each) or each.name == "type"
        }
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _graph(given: Mapping[str, Any]) -> Graph:
    parts: dict[str, Any] = {
        **_with_inputs(given),
        "nodes": {name: _node(node) for name, node in given["nodes"].items()},
    }
    if "settings" in given:
        parts["settings"] = GraphSettings(**given["settings"])
    return Graph(**parts)


def _node(given: Mapping[str, Any]) -> Any:
    section = _NODES[given["type"]]
    if section is TurnNode:
        return TurnNode(**{**given, "config": NormalAgent(**_with_inputs(given["config"]))})
    parts: dict[str, Any] = {
        name: [part(**each) for each in given[name]]
        for name, part in section.SECTIONS.items()
        if name in given
    }
    if "form" in given:  # of an input node
        parts["form"] = FormField(**given["form"])
    return section(**{**given, **parts, "next": _next(given.get("next"))})


def _next(given: Any) -> Any:
    if isinstance(given, dict):
        return Switch(**given)
    if isinstance(given, list) and given and isinstance(given[0], dict):
        return [Route(**each) for each in given]
    return given


def _with_inputs(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **given,
        "variables": [Variable(**each) for each in given.get("variables", ())],
        "form": {name: FormField(**each) for name, each in given.get("form", {}).items()},
    }
