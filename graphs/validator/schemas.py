"""The rule about `output_schema`: E213."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from sleipnir.graphs.document.finding import Finding, cut
from sleipnir.graphs.state import encode
from sleipnir.graphs.validator.context import Context
from sleipnir.lazy import lazy_imports

# Lazy: importing it takes a tenth of a second, and most graphs have no schema.
with lazy_imports():
    import jsonschema
    import referencing
    from jsonschema import validators
    from referencing import exceptions
    from referencing import jsonschema as dialects

_DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_MAX_DETAIL_CHARS = 200

# What is wrong, and where in the schema.
Flaw: TypeAlias = tuple[str, tuple[str | int, ...]]


def output_schemas_are_schemas(context: Context) -> Iterator[Finding]:
    """E213: schemas must be valid JSON Schema of their dialect without external references."""
    # cached, as many nodes share one schema and checking is slow
    flaws: dict[str, Flaw | None] = {}
    for node_id, node in context.graph.nodes.items():
        schema = getattr(node, "output_schema", None)
        if schema is None:
            continue
        text = encode(schema)
        if text not in flaws:
            flaws[text] = find_flaw(schema)
        flaw = flaws[text]
        if flaw is not None:
            detail, path = flaw
            message = f"node '{node_id}': output_schema: {detail}"
            yield context.finding("E213", message, "nodes", node_id, "output_schema", *path)


def find_flaw(schema: dict[str, Any]) -> Flaw | None:
    """Return the first reason why a schema is unusable; None if it is usable."""
    dialect = schema.get("$schema", _DEFAULT_DIALECT)
    # The type stubs do not allow this default, which is returned as it is.
    unknown: Any = None
    validator = (
        validators.validator_for({"$schema": dialect}, unknown)
        if isinstance(dialect, str)
        else None
    )
    if validator is None:
        return f"unknown dialect {encode(dialect)}", ("$schema",)
    try:
        validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        detail = cut(error.message, _MAX_DETAIL_CHARS)
        return f"{detail} at {error.json_path}", tuple(error.absolute_path)
    return _dangling_reference(schema, dialect)


def _dangling_reference(schema: dict[str, Any], dialect: str) -> Flaw | None:
    resource = dialects.specification_with(dialect).create_resource(schema)
    resolver = referencing.Registry[Any]().resolver_with_root(resource)
    for path, reference, is_rebased in _references(schema):
        if not reference.startswith("#"):
            return f"'{reference}' is not inside the schema; only references to '#…' are", path
        try:
            if not is_rebased:
                resolver.lookup(reference)
        except (exceptions.Unresolvable, ValueError):  # ValueError: for example `#/allOf/x`
            return f"'{reference}' cannot be resolved", path
    return None


def _references(schema: Any) -> Iterator[tuple[tuple[str | int, ...], str, bool]]:
    """Yield each reference with its path, and whether an inner `$id` changes its base."""
    waiting: list[tuple[tuple[str | int, ...], Any, bool]] = [((), schema, False)]
    while waiting:
        path, part, is_rebased = waiting.pop()
        if isinstance(part, dict):
            is_rebased = is_rebased or bool(path and isinstance(part.get("$id"), str))
            for key in _REFERENCES:
                if isinstance(part.get(key), str):
                    yield (*path, key), part[key], is_rebased
            waiting += [((*path, key), value, is_rebased) for key, value in part.items()]
        elif isinstance(part, list):
            waiting += [((*path, index), item, is_rebased) for index, item in enumerate(part)]
