"""The files in an agent's `tests/` and `evals/` as JSON Schema, for editors."""

from __future__ import annotations

from sleipnir.graphs.json_schema import Schema, file_schema
from sleipnir.scheduler.testing.cases import CaseFields, CostFields, Expected, OutputFields
from sleipnir.scheduler.testing.evaluation.file import CheckFields, EvaluationFields, GateFields
from sleipnir.scheduler.testing.replies import ReplyFields, ToolCallFields


def tests_schema() -> Schema:
    """Return the schema of a file of cases: one case, or several under `cases`."""
    whole = file_schema(
        CaseFields,
        "Case of an agent",
        (Expected, OutputFields, CostFields, ReplyFields, ToolCallFields),
    )
    parts = whole.pop("$defs")
    dialect, title = whole.pop("$schema"), whole["title"]
    reply = {"anyOf": [{"type": "string"}, _ref("ReplyFields")]}
    replies = {"type": "array", "items": reply}
    whole["properties"]["replies"]["anyOf"] = [
        replies,
        {"type": "object", "additionalProperties": {"anyOf": [*reply["anyOf"], replies]}},
        {"type": "null"},
    ]
    whole["properties"]["expect"]["anyOf"] = [_ref("Expected"), {"type": "null"}]
    parts["ReplyFields"]["properties"]["calls"]["items"] = _ref("ToolCallFields")
    several = {
        "type": "object",
        "title": "Cases of an agent",
        "required": ["cases"],
        "properties": {"cases": {"type": "array", "items": _ref("CaseFields")}},
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }
    return {
        "$schema": dialect,
        "title": title,
        "if": {"required": ["cases"]},
        "then": several,
        "else": _ref("CaseFields"),
        "$defs": {"CaseFields": whole, **parts},
    }


def evaluation_schema() -> Schema:
    """Return the schema of an evaluation."""
    whole = file_schema(EvaluationFields, "Evaluation of an agent", (CheckFields, GateFields))
    whole["properties"]["checks"] |= {"items": _ref("CheckFields"), "minItems": 1}
    whole["properties"]["gate"]["additionalProperties"] = _ref("GateFields")
    kinds = [{"required": [kind]} for kind in ("is", "score", "judge")]
    whole["$defs"]["CheckFields"]["oneOf"] = kinds
    return whole


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}
