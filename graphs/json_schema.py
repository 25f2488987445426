"""`graph.yaml` as JSON Schema (2020-12), for editors: completion, descriptions, first checks."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.schema import NODE_TYPES, Graph

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NODE_ID = {"maxLength": 128, "pattern": r"^[^.\s/\\\x00-\x1f\x7f][^\s/\\\x00-\x1f\x7f]*$"}

Schema = dict[str, Any]


def json_schema() -> Schema:
    """The schema of a whole file; what it accepts may still fail validation."""
    graph = Graph.model_json_schema(by_alias=True)
    definitions: dict[str, Schema] = graph.pop("$defs")
    for section in (graph, *definitions.values()):
        _adapt(section)
    for node_type, node in NODE_TYPES.items():
        definitions[node.__name__]["title"] = f"{node_type} node"
    definitions["Node"] = _node()
    properties = graph["properties"]
    properties["version"]["enum"] = ["1.0", 1.0, None]
    properties["version"]["type"] = ["string", "number", "null"]
    properties["settings"]["default"] = {}
    properties["nodes"] |= {
        "additionalProperties": {"$ref": "#/$defs/Node"},
        "propertyNames": _NODE_ID,
        "minProperties": 1,
    }
    return {
        "$schema": _DIALECT,
        **graph,
        "title": "Graph agent",
        "$defs": dict(sorted(definitions.items())),
    }


def _node() -> Schema:
    """A choice by `type`, in the form from which editors give the errors of that type only."""
    return {
        "title": "node",
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": list(NODE_TYPES), "description": "What it does."}},
        "allOf": [
            {
                "if": {"properties": {"type": {"const": node_type}}, "required": ["type"]},
                "then": {"$ref": f"#/$defs/{node.__name__}"},
            }
            for node_type, node in NODE_TYPES.items()
        ],
    }


def _adapt(section: Schema) -> None:
    """Say what the loader allows in any mapping: notes (`x-…`), and null for "not given"."""
    section["patternProperties"] = {"^x-": {}}
    required = section.get("required", [])
    for name, field in section["properties"].items():
        field.pop("title", None)
        if name in required or name == "type":
            continue
        if field.get("default", ...) is None:
            del field["default"]
        _allow_null(field)


def _allow_null(field: Schema) -> None:
    if "anyOf" in field:
        if {"type": "null"} not in field["anyOf"]:
            field["anyOf"].append({"type": "null"})
    elif "$ref" in field:
        field["anyOf"] = [{"$ref": field.pop("$ref")}, {"type": "null"}]
    elif "type" in field:
        field["type"] = [field["type"], "null"]
        if "enum" in field:
            field["enum"] = [*field["enum"], None]
