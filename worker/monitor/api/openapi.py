"""The OpenAPI document of the API."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from sleipnir.worker.monitor.api.answers import RefusalDocument
from sleipnir.worker.monitor.api.operations import OPERATIONS, Operation

VERSION = "1"
_REFERENCE = "#/components/schemas/{model}"
_JSON = "application/json"


@cache
def openapi_document() -> dict[str, Any]:
    """Return the document, in OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    _, schemas = TypeAdapter.json_schemas(
        [(kind.__name__, "validation", TypeAdapter(kind)) for kind in _documents()],
        ref_template=_REFERENCE,
    )
    return {
        "openapi": "3.1.0",
        "info": {"title": "Sleipnir's monitor", "version": VERSION},
        "security": [{"key": []}, {"password": []}],
        "paths": paths,
        "components": {
            "schemas": schemas["$defs"],
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
    }


def _documents() -> list[type]:
    found: list[type] = [RefusalDocument]
    for operation in OPERATIONS:
        found += [operation.gives] if not isinstance(operation.gives, str) else []
        found += [operation.takes] if operation.takes is not None else []
    return list(dict.fromkeys(found))


def _operation(operation: Operation) -> dict[str, Any]:
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", operation.path)
    ]
    in_query = [
        {"name": name, "in": "query", "description": about, "schema": {"type": "string"}}
        for name, about in operation.query.items()
    ]
    answers = {str(status): _content("Done", operation.gives) for status in operation.statuses}
    document: dict[str, Any] = {
        "summary": operation.about,
        "parameters": in_path + in_query,
        "responses": {**answers, "default": _content("Refused, and why", RefusalDocument)},
    }
    if operation.takes is not None:
        document["requestBody"] = {"required": True, **_content("", operation.takes)}
        del document["requestBody"]["description"]
    return document


def _content(about: str, model: type | str) -> dict[str, Any]:
    if isinstance(model, str):
        return {"description": about, "content": {model: {"schema": {"type": "string"}}}}
    reference = _REFERENCE.format(model=model.__name__)
    return {"description": about, "content": {_JSON: {"schema": {"$ref": reference}}}}
