"""Schemas as fields of requests: what is left out, and which are strict."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.llm.response_format import response_format

LABEL = {"type": "string", "enum": ["billing", "other"]}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


def closed(**properties: Any) -> dict[str, Any]:
    return {**an_object(**properties), "additionalProperties": False}


def sent(schema: dict[str, Any]) -> tuple[Any, bool]:
    found = response_format("n", schema)["json_schema"]
    return found["schema"], found["strict"]


def test_the_field_names_the_node_in_characters_that_providers_take() -> None:
    assert response_format("sort mails/ä", an_object(a=LABEL)) == {
        "type": "json_schema",
        "json_schema": {"name": "sort_mails__", "schema": closed(a=LABEL), "strict": True},
    }
    assert response_format("n" * 65, {})["json_schema"]["name"] == "n" * 64


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (an_object(label=LABEL), closed(label=LABEL)),
        (an_object(), closed()),
        (an_object(a=an_object(b=LABEL)), closed(a=closed(b=LABEL))),
        (
            an_object(a={"type": "array", "items": an_object(b=LABEL)}),
            closed(a={"type": "array", "items": closed(b=LABEL)}),
        ),
        (
            an_object(a={"anyOf": [an_object(b=LABEL), {"type": "null"}]}),
            closed(a={"anyOf": [closed(b=LABEL), {"type": "null"}]}),
        ),
        (
            {**an_object(a={"$ref": "#/$defs/d"}), "$defs": {"d": an_object(b={"const": 1})}},
            {**closed(a={"$ref": "#/$defs/d"}), "$defs": {"d": closed(b={"const": 1})}},
        ),
        (
            an_object(a={**an_object(b=LABEL), "type": ["object", "null"]}),
            closed(a={**closed(b=LABEL), "type": ["object", "null"]}),
        ),
        (
            {**an_object(a={"description": "d", "title": "t"}), "additionalProperties": False},
            closed(a={"description": "d", "title": "t"}),
        ),
    ],
)
def test_objects_that_name_all_they_have_are_closed_and_strict(
    schema: dict[str, Any], strict: dict[str, Any]
) -> None:
    assert sent(schema) == (strict, True)


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"enum": ["a"]},
        {"type": "array", "items": an_object(a=LABEL)},
        {"type": "object"},
        {"type": "object", "properties": {"a": LABEL}},
        {"type": "object", "properties": {"a": LABEL}, "required": ["a", "b"]},
        {**an_object(a=LABEL), "additionalProperties": True},
        {**an_object(a=LABEL), "additionalProperties": {"type": "string"}},
        {**an_object(a=LABEL), "anyOf": [an_object(a=LABEL)]},
        {**an_object(a=LABEL), "oneOf": [an_object(a=LABEL)]},
        {**an_object(a=LABEL), "patternProperties": {"x": LABEL}},
        an_object(a={"type": "object"}),
        an_object(a={"type": ["object", "null"]}),
        an_object(a={"properties": {"b": LABEL}}),
        an_object(a={"type": "array", "items": {"type": "object"}}),
        an_object(a={"type": "array", "items": [LABEL]}),
        an_object(a={"anyOf": [{"not": LABEL}]}),
        an_object(a=True),
        {**an_object(a=LABEL), "$defs": {"unused": {"type": "object"}}},
        {**an_object(a=LABEL), "x-note": "ours"},
    ],
)
def test_all_others_are_sent_as_they_are_and_not_strict(schema: dict[str, Any]) -> None:
    assert sent(schema) == (schema, False)


def test_keywords_that_some_provider_refuses_are_left_out() -> None:
    text = {"type": "string", "format": "email", "pattern": "@", "minLength": 1, "default": "a"}
    number = {"type": "number", "minimum": 0, "exclusiveMaximum": 9, "multipleOf": 2}
    many = {
        "type": "array",
        "items": {"anyOf": [number, {"type": "null", "examples": [None]}]},
        "uniqueItems": True,
        "maxItems": 9,
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **an_object(t=text, m=many),
    }

    kept = {"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}}
    assert sent(schema) == (closed(t={"type": "string"}, m=kept), True)


def test_properties_with_the_names_of_such_keywords_stay() -> None:
    names = ("pattern", "minimum", "maxima", "default", "exclusive", "$schema", "format")
    schema = {**an_object(**dict.fromkeys(names, LABEL)), "$defs": {"minimal": LABEL}}

    found, strict = sent(schema)

    assert (set(found["properties"]), strict) == (set(names), True)
    assert found["$defs"] == {"minimal": LABEL}


def test_values_that_look_like_schemas_stay() -> None:
    value = {"type": "object", "minimum": 1}

    found, _ = sent(an_object(a={"const": value}, b={"enum": [value]}))

    assert (found["properties"]["a"], found["properties"]["b"]) == (
        {"const": value},
        {"enum": [value]},
    )


@pytest.mark.parametrize("keyword", ["not", "if"])
def test_nothing_is_left_out_where_that_would_exclude_more(keyword: str) -> None:
    schema = an_object(a={"type": "string", keyword: {"pattern": "^x"}})

    assert sent(schema) == (schema, False)
