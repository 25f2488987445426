"""The field of a request that has the provider make a reply conform to a JSON Schema.

Providers take a part of JSON Schema only. What some of them refuse is left out: replies are checked
against the whole schema anyway.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_NAME_CHARACTERS: Final = 64
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]")

_LEFT_OUT: Final = frozenset(
    {"$schema", "format", "pattern", "multipleOf", "uniqueItems", "default", "examples"}
)
_LEFT_OUT_BY_PREFIX: Final = ("min", "max", "exclusive")
# Where schemas have schemas. Not within `not` and `if`: what is left out there changes what fits.
_SCHEMA: Final = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "items",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_SCHEMAS: Final = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
_SCHEMAS_BY_NAME: Final = frozenset(
    {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}
)
# What the strict mode of providers knows.
_STRICT: Final = frozenset(
    {
        "$defs",
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "description",
        "enum",
        "items",
        "properties",
        "required",
        "title",
        "type",
    }
)


def response_format(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field `response_format` for replies that conform to a schema.

    Args:
        name: of what asks; providers see it with other characters.
    """
    sent = _reduced(schema)
    strict = sent.get("type") == "object" and _is_strict(sent)
    if strict:
        sent = _closed(sent)
    name = _NO_NAME.sub("_", name)[:_NAME_CHARACTERS]
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": sent, "strict": strict},
    }


def _reduced(schema: Any) -> Any:
    """Return a schema without the keywords that some provider refuses."""
    if not isinstance(schema, dict):
        return schema
    return {
        keyword: _mapped(keyword, value, _reduced)
        for keyword, value in schema.items()
        if keyword not in _LEFT_OUT and not keyword.startswith(_LEFT_OUT_BY_PREFIX)
    }


def _is_strict(schema: Any) -> bool:
    """Return whether a schema has only what the strict mode of providers knows."""
    if not isinstance(schema, dict) or not schema.keys() <= _STRICT:
        return False
    properties = schema.get("properties", {})
    if _is_object(schema) and not (
        "properties" in schema
        and properties.keys() == set(schema.get("required", ()))
        and "anyOf" not in schema
        and schema.get("additionalProperties", False) is False
    ):
        return False
    parts = [*properties.values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", ())]
    return all(map(_is_strict, [*parts, schema["items"]] if "items" in schema else parts))


def _closed(schema: Any) -> Any:
    """Return a schema whose objects have no other properties than those that it names."""
    if not isinstance(schema, dict):
        return schema
    closed = {keyword: _mapped(keyword, value, _closed) for keyword, value in schema.items()}
    return {**closed, "additionalProperties": False} if _is_object(schema) else closed


def _is_object(schema: Mapping[str, Any]) -> bool:
    types = schema.get("type")
    return "properties" in schema or "object" in (types if isinstance(types, list) else [types])


def _mapped(keyword: str, value: Any, change: Callable[[Any], Any]) -> Any:
    """Return the value of a keyword with each schema in it changed."""
    if isinstance(value, dict) and keyword in _SCHEMAS_BY_NAME:
        return {name: change(part) for name, part in value.items()}
    if isinstance(value, list) and keyword in _SCHEMAS:
        return [change(part) for part in value]
    return change(value) if keyword in _SCHEMA else value
