"""Schemas of tools' arguments, made such that providers of models accept them.

Providers refuse the whole request for one odd schema, while servers hardly ever notice theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_NAMES = {"object", "array", "string", "number", "integer", "boolean", "null"}
# What types are called elsewhere.
_OTHER_NAMES = {
    **dict.fromkeys(("int", "long", "int32", "int64"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    **dict.fromkeys(("dict", "map", "struct"), "object"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("none", "nil"), "null"),
}

_ONE_SCHEMA = {
    *("items", "additionalItems", "additionalProperties", "contains", "propertyNames"),
    *("unevaluatedItems", "unevaluatedProperties", "not", "if", "then", "else"),
}
_LIST_OF_SCHEMAS = {"allOf", "anyOf", "oneOf", "prefixItems"}
_MAP_OF_SCHEMAS = {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
# Keywords that providers refuse at the top, whatever is beside them.
_NOT_AT_THE_TOP = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_PLAIN: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"), _is_number),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems"), _is_count),
    **dict.fromkeys(("maxProperties", "minProperties"), _is_count),
    **dict.fromkeys(("title", "description", "format", "pattern", "$schema", "$id"), _is_text),
    "uniqueItems": lambda value: isinstance(value, bool),
    "enum": lambda value: isinstance(value, list) and value != [],
    "examples": lambda value: isinstance(value, list),
    "dependentRequired": lambda value: isinstance(value, dict),
}


class SchemaUnusable(Exception):
    """The schema cannot be that of a tool's arguments; the message says why."""


def argument_schema(declared: Any) -> tuple[dict[str, Any], list[str]]:
    """Return the schema of an object that a tool declares, and the paths of what was left out.

    Without a declaration the tool takes no arguments.

    Raises:
        SchemaUnusable: it is no schema, or not that of an object.
    """
    if declared is None:
        declared = {}
    if not isinstance(declared, dict):
        raise SchemaUnusable("its inputSchema is not an object")
    repair = _Repair(declared)
    schema = repair.schema(declared, "inputSchema")
    types = schema.get("type", "object")
    if "object" not in ([types] if isinstance(types, str) else types):
        raise SchemaUnusable(f"its inputSchema is of type '{types}', not 'object'")
    return {"properties": {}, **schema, "type": "object"}, repair.left_out


def declared_to_models(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without the keywords that providers refuse at its top.

    The properties of alternatives stay, as optional ones: the call itself is checked against the
    whole schema.
    """
    properties: dict[str, Any] = dict(schema["properties"])
    target = _resolved(schema, schema.get("$ref"))
    for part in (target, *_alternatives(schema)):
        if isinstance(part, dict) and isinstance(part.get("properties"), dict):
            properties = {**part["properties"], **properties}
    left = {key: part for key, part in schema.items() if key not in (*_NOT_AT_THE_TOP, "$ref")}
    return {**left, "properties": properties}


def _alternatives(schema: Mapping[str, Any]) -> Iterator[Any]:
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from schema.get(keyword, ())


class _Repair:
    """One pass over a schema, which notes what it leaves out."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.left_out: list[str] = []
        self._root = root

    def schema(self, declared: Any, path: str) -> Any:
        if isinstance(declared, bool):
            return {} if declared else {"not": {}}
        if not isinstance(declared, dict):
            self.left_out.append(path)
            return {}
        kept = {}
        for keyword, value in declared.items():
            # Some libraries write null for every keyword without a value.
            if value is None and keyword not in ("default", "const"):
                continue
            if (part := self._part(keyword, value, f"{path}.{keyword}")) is not _LEFT_OUT:
                kept[keyword] = part
        types = kept.get("type")
        if types == "array" or (isinstance(types, list) and "array" in types):
            kept.setdefault("items", {})
        if types == "object":
            kept.setdefault("properties", {})
        return kept

    def _part(self, keyword: str, value: Any, path: str) -> Any:
        if keyword == "type":
            part = self._type(value)
        elif keyword in _ONE_SCHEMA:
            part = self._one(keyword, value, path)
        elif keyword in _LIST_OF_SCHEMAS:
            part = self._several(value, path)
        elif keyword in _MAP_OF_SCHEMAS:
            part = _LEFT_OUT
            if isinstance(value, dict):
                part = {name: self.schema(each, f"{path}.{name}") for name, each in value.items()}
        elif keyword == "required":
            is_list = isinstance(value, list)
            part = list(dict.fromkeys(filter(_is_text, value))) if is_list else _LEFT_OUT
        elif keyword == "$ref":
            part = _LEFT_OUT if _resolved(self._root, value) is None else value
        else:
            part = value if keyword not in _PLAIN or _PLAIN[keyword](value) else _LEFT_OUT
        if part is _LEFT_OUT and value != "any":  # as a type, it says nothing
            self.left_out.append(path)
        return part

    def _one(self, keyword: str, value: Any, path: str) -> Any:
        if isinstance(value, list) and keyword == "items":  # a tuple in older dialects
            parts = self._several(value, path)
            return {} if parts is _LEFT_OUT else {"anyOf": parts}
        if isinstance(value, bool) and keyword != "items":
            return value
        return self.schema(value, path) if isinstance(value, dict | bool) else _LEFT_OUT

    def _several(self, value: Any, path: str) -> Any:
        if not isinstance(value, list) or not value:
            return _LEFT_OUT
        return [self.schema(each, f"{path}.{place}") for place, each in enumerate(value)]

    def _type(self, value: Any) -> Any:
        if isinstance(value, list):
            names = list(dict.fromkeys(name for each in value if (name := _type_name(each))))
            return names or _LEFT_OUT
        return _type_name(value) or _LEFT_OUT


_LEFT_OUT: Any = object()


def _type_name(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    name = value.lower()
    return name if name in _NAMES else _OTHER_NAMES.get(name)


def _resolved(root: Mapping[str, Any], reference: Any) -> Any:
    """Return what a reference within the schema leads to; None if it leads nowhere."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    part: Any = root
    for step in reference.split("/")[1:]:
        if isinstance(part, list):
            part = dict(enumerate(part)).get(int(step)) if step.isdecimal() else None
        elif isinstance(part, dict):
            part = part.get(step.replace("~1", "/").replace("~0", "~"))
        else:
            return None
    return part
