"""Schemas of tools' arguments, as they are sent to models."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.mcp.schemas import SchemaUnusable, argument_schema, declared_to_models

NO_ARGUMENTS = {"type": "object", "properties": {}}


def one(argument: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": argument}}


@pytest.mark.parametrize(
    "declared",
    [
        None,
        {},
        {"type": "object"},
        {"type": "object", "properties": None, "required": None},
        {"type": ["object", "null"], "properties": {}},
        {"type": "dict"},
    ],
)
def test_a_tool_without_arguments_takes_an_object_without_properties(declared: Any) -> None:
    assert argument_schema(declared) == (NO_ARGUMENTS, [])


@pytest.mark.parametrize("declared", ["object", [], True, 5, {"type": "array"}, {"type": "string"}])
def test_what_is_no_schema_of_an_object_is_refused(declared: Any) -> None:
    with pytest.raises(SchemaUnusable, match="inputSchema"):
        argument_schema(declared)


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ({"type": "int"}, {"type": "integer"}),
        ({"type": "STRING"}, {"type": "string"}),
        ({"type": ["str", "none"]}, {"type": ["string", "null"]}),
        ({"type": "any"}, {}),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "object"}, {"type": "object", "properties": {}}),
        (
            {"type": "array", "items": [{"type": "float"}]},
            {"type": "array", "items": {"anyOf": [{"type": "number"}]}},
        ),
        (
            {"anyOf": [{"type": "bool"}, {"type": "null"}]},
            {"anyOf": [{"type": "boolean"}, {"type": "null"}]},
        ),
        (True, {}),
        ({"type": "string", "default": None, "title": None}, {"type": "string", "default": None}),
        (
            {"type": "string", "x-own": {"type": "int"}},
            {"type": "string", "x-own": {"type": "int"}},
        ),
    ],
)
def test_what_is_meant_is_written_as_json_schema_has_it(argument: Any, meant: Any) -> None:
    assert argument_schema(one(argument)) == (one(meant), [])


@pytest.mark.parametrize(
    ("argument", "left", "path"),
    [
        ({"type": "file"}, {}, "a.type"),
        ({"type": {"name": "string"}}, {}, "a.type"),
        ("string", {}, "a"),
        ({"enum": []}, {}, "a.enum"),
        ({"type": "string", "required": True}, {"type": "string"}, "a.required"),
        ({"minimum": "1"}, {}, "a.minimum"),
        ({"maximum": 5, "exclusiveMaximum": True}, {"maximum": 5}, "a.exclusiveMaximum"),
        ({"description": ["x"]}, {}, "a.description"),
        ({"anyOf": []}, {}, "a.anyOf"),
        ({"$ref": "#/$defs/Nowhere"}, {}, "a.$ref"),
        ({"$ref": "https://example.org/schema"}, {}, "a.$ref"),
        ({"items": 5}, {}, "a.items"),
    ],
)
def test_a_keyword_that_providers_would_refuse_is_left_out(
    argument: Any, left: Any, path: str
) -> None:
    assert argument_schema(one(argument)) == (one(left), [f"inputSchema.properties.{path}"])


def test_references_within_the_schema_stay() -> None:
    schema = {**one({"$ref": "#/$defs/A"}), "$defs": {"A": {"type": "string"}}}

    assert argument_schema(schema) == (schema, [])


@pytest.mark.parametrize(
    "declared",
    [
        {"anyOf": [one({"type": "string"}), {"type": "object", "properties": {"b": {}}}]},
        {"$ref": "#/$defs/A", "$defs": {"A": one({"type": "string"})}},
    ],
)
def test_alternatives_at_the_top_reach_models_as_properties(declared: Any) -> None:
    """Providers refuse them there."""
    schema = declared_to_models(argument_schema(declared)[0])

    assert schema["type"] == "object"
    assert schema["properties"]["a"] == {"type": "string"}
    assert not {"anyOf", "$ref"} & set(schema)
