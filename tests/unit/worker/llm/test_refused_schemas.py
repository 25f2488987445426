"""Schemas that servers have refused: which of them are left out, and for how long."""

from __future__ import annotations

from sleipnir.worker.llm.client import Endpoint, ReplySchema
from sleipnir.worker.llm.provider.refused_fields import RefusedFields
from sleipnir.worker.llm.response_format import response_format

ENDPOINT = Endpoint("custom_openai/m", "http://here/v1", "none")
LEFT_OUT = frozenset({"response_format"})


def asks_for(kind: str, *, node: str = "n", required: bool = False) -> ReplySchema:
    return ReplySchema(response_format(node, {"type": kind}), "As JSON.", required)


def test_a_schema_is_left_out_for_an_hour_with_this_model_only() -> None:
    now_s = 50.0
    refused = RefusedFields(lambda: now_s)
    schema = asks_for("object")

    refused.remember_schema(ENDPOINT, schema)

    others = [
        Endpoint("custom_openai/n", "http://here/v1"),
        Endpoint("custom_openai/m", "http://x"),
    ]
    assert refused.of(ENDPOINT, schema) == LEFT_OUT
    assert refused.of(ENDPOINT, asks_for("object", node="another")) == LEFT_OUT
    assert refused.of(ENDPOINT, asks_for("array")) == frozenset()
    assert refused.of(ENDPOINT, asks_for("object", required=True)) == frozenset()
    assert [refused.of(other, schema) for other in others] == [frozenset()] * 2
    now_s += 3600
    assert refused.of(ENDPOINT, schema) == frozenset()
    refused.remember_schema(ENDPOINT, asks_for("array"))
    assert refused.of(ENDPOINT, schema) == frozenset()
    refused.remember_schema(ENDPOINT, schema)
    assert refused.of(ENDPOINT, schema) == LEFT_OUT
