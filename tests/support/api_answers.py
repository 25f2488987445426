"""Checks answers of the monitor's API against its OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from jsonschema import Draft202012Validator

from sleipnir.worker.monitor.api.openapi import openapi_document

_PARTS = {"step": r"[0-9]+", "map": r"[^/]+", "visit": r".+", "name": r"[^/]+", "agent": r"[^/]+"}
_JSON = "application/json"


def check_answer(method: str, path: str, status: int, kind: str, text: str) -> None:
    """Fail unless an answer is one that the document describes."""
    place = urlsplit(path).path
    if not place.startswith("/api/v1/") or not kind.startswith(_JSON):
        return
    operation = operation_of(method, place)
    if operation is None:
        assert status >= 400, f"{method} {place} is not in the document"
        operation = {"responses": {"default": _refusal()}}
    answers: Mapping[str, Any] = operation["responses"]
    assert status >= 400 or str(status) in answers, f"{method} {place} may not answer {status}"
    content = answers.get(str(status), answers["default"])["content"][_JSON]
    if "$ref" not in content["schema"]:
        return
    problems = [
        error.message
        for error in _validator(content["schema"]["$ref"]).iter_errors(json.loads(text))
    ]
    assert problems == [], f"{method} {place}: {problems}"


def operation_of(method: str, place: str) -> Mapping[str, Any] | None:
    """Return the most specific operation for an address; None without one."""
    for path, operations in sorted(openapi_document()["paths"].items(), key=_is_general):
        pattern = re.sub(
            r"\\\{(\w+)\\\}", lambda part: _PARTS.get(part[1], "[0-9a-f]{16}"), re.escape(path)
        )
        if method.lower() in operations and re.fullmatch(pattern, place):
            found: Mapping[str, Any] = operations[method.lower()]
            return found
    return None


def _is_general(item: tuple[str, Any]) -> bool:
    return "{" in item[0]


def _refusal() -> Any:
    return openapi_document()["paths"]["/api/v1/me"]["get"]["responses"]["default"]


@cache
def _validator(reference: str) -> Draft202012Validator:
    components = deepcopy(openapi_document()["components"])
    for schema in components["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False  # no fields that the document lacks
    return Draft202012Validator({"$ref": reference, "components": components})
