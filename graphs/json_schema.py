"""`graph.yaml` as JSON Schema (2020-12), for editors: completion, descriptions, first checks."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from sleipnir.graphs import schema
from sleipnir.graphs.schema import NODE_TYPES, Graph, Section

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NODE_ID = {"maxLength": 128, "pattern": r"^[^.\s/\\\x00-\x1f\x7f][^\s/\\\x00-\x1f\x7f]*$"}

Schema = dict[str, Any]


def json_schema() -> Schema:
    """The schema of a whole file; what it accepts may still fail validation."""
    graph = Graph.model_json_schema(by_alias=True)
    definitions: dict[str, Schema] = graph.pop("$defs")
    described = dict(_descriptions())
    for name, section in (("Graph", graph), *definitions.items()):
        _describe(section, getattr(schema, name), described)
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


def _descriptions() -> Iterator[tuple[tuple[str, str], str]]:
    """The texts below the fields of each class.

    pydantic would read them each time the classes are imported, for users who never see them.
    """
    module = ast.parse(Path(schema.__file__).read_text(encoding="utf-8"))
    for section in module.body:
        if isinstance(section, ast.ClassDef):
            for field, below in pairwise(section.body):
                match field, below:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        yield (section.name, name), inspect.cleandoc(text)


def _describe(section: Schema, model: type[Section], described: dict[tuple[str, str], str]) -> None:
    for name, field in model.model_fields.items():
        texts = [described.get((kind.__name__, name)) for kind in model.__mro__]
        text = next(filter(None, texts), None)
        if text is not None:
            section["properties"][field.alias or name]["description"] = text


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
