"""Files of agents as JSON Schema (2020-12), for editors: completion, descriptions, basic checks."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from itertools import pairwise
from typing import Any

from sleipnir.graphs.normal_agent import NormalAgent
from sleipnir.graphs.schema import (
    NODE_TYPES,
    Complaint,
    Example,
    FormField,
    Graph,
    GraphSettings,
    Route,
    Section,
    Switch,
    TextFile,
    Variable,
)
from sleipnir.graphs.section_check import adapter_of

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_NODE_ID = {"maxLength": 128, "pattern": r"^[^.\s/\\\x00-\x1f\x7f][^\s/\\\x00-\x1f\x7f]*$"}

Schema = dict[str, Any]

# The sections of a graph.
_PARTS: tuple[type[Section], ...] = (
    GraphSettings,
    Variable,
    FormField,
    Route,
    Switch,
    TextFile,
    Example,
    Complaint,
    *NODE_TYPES.values(),
)


def config_schema() -> Schema:
    """Return the schema of a `config.yaml`; one that conforms may still fail validation."""
    whole = file_schema(NormalAgent, "Normal agent", (Variable, FormField))
    whole["properties"]["variables"]["items"] = {"$ref": "#/$defs/Variable"}
    whole["properties"]["x-form"]["additionalProperties"] = {"$ref": "#/$defs/FormField"}
    return whole


def file_schema(
    section: type[Section], title: str, parts: tuple[type[Section], ...]
) -> dict[str, Any]:
    """Return the schema of a file that is one section.

    Args:
        parts: the sections in it, which become its definitions.
    """
    whole = _adapted(section)
    definitions = {part.__name__: _adapted(part) for part in parts}
    for each in (whole, *definitions.values()):
        each.pop("$defs", None)
    return {"$schema": _DIALECT, **whole, "title": title, "$defs": definitions}


def json_schema() -> Schema:
    """Return the schema of a graph.yaml; a file that conforms may still fail validation."""
    definitions = {part.__name__: _adapted(part) for part in _PARTS}
    for node_type, node in NODE_TYPES.items():
        definitions[node.__name__]["title"] = f"{node_type} node"
        properties = definitions[node.__name__]["properties"]
        properties["next"] |= {"anyOf": _next()}
        for field, part in node.SECTIONS.items():
            properties[field]["items"] = {"$ref": f"#/$defs/{part.__name__}"}
        for field in node.FROM_FILES:
            _allow_file(properties[field])
    definitions["Node"] = _node()
    graph = _adapted(Graph)
    properties = graph["properties"]
    properties["version"]["enum"] = ["1.0", 1.0, None]
    properties["version"]["type"] = ["string", "number", "null"]
    properties["variables"]["items"] = {"$ref": "#/$defs/Variable"}
    form = {"$ref": "#/$defs/FormField"}
    properties["x-form"]["additionalProperties"] = form
    definitions["InputNode"]["properties"]["x-form"]["anyOf"] = [form, {"type": "null"}]
    properties["settings"] |= {
        "default": {},
        "anyOf": [{"$ref": "#/$defs/GraphSettings"}, {"type": "null"}],
    }
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


def _allow_file(field: Schema) -> None:
    """Allow a text to be in a file of its own."""
    field.pop("type", None)
    texts = field.get("anyOf", [{"type": "string"}])
    field["anyOf"] = [texts[0], {"$ref": "#/$defs/TextFile"}, *texts[1:]]


def _next() -> list[Schema]:
    """Return the forms of `next`."""
    return [
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
        {"type": "array", "items": {"$ref": "#/$defs/Route"}, "minItems": 1},
        {"$ref": "#/$defs/Switch"},
        {"type": "null"},
    ]


def section_schema(section: type[Section]) -> Schema:
    """Return the schema of one section, with the docstrings of its fields."""
    found = adapter_of(section).json_schema(by_alias=True)
    _describe(found, section)
    return found


def _adapted(section: type[Section]) -> Schema:
    found = section_schema(section)
    _adapt(found)
    return found


@cache
def _descriptions(module: str) -> Mapping[tuple[str, str], str]:
    """Return fields' docstrings by class and field, from the source, as Python drops them."""
    found = {}
    for section in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(section, ast.ClassDef):
            for field, below in pairwise(section.body):
                match field, below:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        found[section.name, name] = inspect.cleandoc(text)
    return found


def _describe(found: Schema, section: type[Section]) -> None:
    for field in fields(section):
        texts = [
            _descriptions(kind.__module__).get((kind.__name__, field.name))
            for kind in section.__mro__
            if issubclass(kind, Section)
        ]
        text = next(filter(None, texts), None)
        if text is not None:
            found["properties"][section.name_in_files(field.name)]["description"] = text


def _node() -> Schema:
    """Return a choice by `type`, in a form for which editors report errors of that type only."""
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
    """Add what the loader allows in any section: notes (`x-…`), and null for "not given"."""
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
