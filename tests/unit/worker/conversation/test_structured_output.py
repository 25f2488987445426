"""Structured output: what is accepted as it is, and what the extractor is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from sleipnir.worker.conversation.structured_output import (
    ExtractionFailed,
    Unfit,
    accept,
    clean,
    extract,
    schema_hint,
)
from sleipnir.worker.llm.client import Message, ModelCallFailed

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name"],
}


class Extractor:
    """Answers with the given replies in order and keeps what it was asked."""

    def __init__(self, *replies: str) -> None:
        self._replies = list(replies)
        self.asked: list[Sequence[Message]] = []

    def __call__(self, messages: Sequence[Message]) -> str:
        self.asked.append(messages)
        return self._replies.pop(0)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("  1\n", "1"),
        ("<think>hm</think> 1", "1"),
        ("<think>a</think>\n<think>b</think>1", "1"),
        ("<think>never closed 1", "<think>never closed 1"),
        ("1 <think>late</think>", "1 <think>late</think>"),
        ("```json\n[1]\n```", "[1]"),
        ("```JSON [1]```", "[1]"),
        ("```\n[1]\n```\n", "[1]"),
        ("<think>x</think>```json\n[1]```", "[1]"),
        ("Here: ```json\n[1]\n```", "Here: ```json\n[1]"),
        ("", ""),
    ],
)
def test_clean_drops_thoughts_and_a_fence_and_nothing_else(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"name": "Ada", "other": [1]}', {"name": "Ada", "other": [1]}),
        ('{"name": "Ada", "age": 99999999999999999999}', {"name": "Ada", "age": 10**20 - 1}),
    ],
)
def test_a_conforming_reply_is_accepted_with_its_extra_keys(text: str, value: Any) -> None:
    assert accept(text, PERSON) == value


@pytest.mark.parametrize("text", ["null", "true", "1.5", '"text"', "[]"])
def test_any_json_type_is_accepted_where_the_schema_allows_it(text: str) -> None:
    accept(text, {})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('Sure! {"name": "Ada"}', "not valid JSON"),
        ("", "not valid JSON"),
        ("NaN", "NaN is not a valid JSON number"),
        ("1e999", "1e999 is not a valid JSON number"),
        ("[" * 100_000, "not valid JSON"),
        ('{"age": 3}', r"\$: 'name' is a required property"),
        ('{"name": "Ada", "age": "3"}', r"\$\.age: '3' is not of type 'integer'"),
    ],
)
def test_an_unfit_reply_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(Unfit, match=why):
        accept(text, PERSON)


def test_the_dialect_is_the_schemas_own_else_2020_12() -> None:
    tuple_of_numbers = {"prefixItems": [{"type": "integer"}]}
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", **tuple_of_numbers}

    with pytest.raises(Unfit):
        accept('["a"]', tuple_of_numbers)
    assert accept('["a"]', draft_7) == ["a"]


def test_format_is_not_enforced() -> None:
    assert accept('"no date"', {"type": "string", "format": "date"}) == "no date"


def test_a_reference_is_never_looked_up_over_the_network() -> None:
    with pytest.raises(Unfit, match="a reference that cannot be resolved"):
        accept("1", {"$ref": "http://127.0.0.1:9/schema.json"})


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("1", {"$ref": "#"}),
        ("1" + "0" * 400, {"multipleOf": 0.01}),
    ],
)
def test_a_reply_that_cannot_be_checked_is_unfit(text: str, schema: dict[str, Any]) -> None:
    with pytest.raises(Unfit, match="cannot be checked against output_schema"):
        accept(text, schema)


def test_what_is_no_schema_fails_the_extraction_and_asks_no_extractor() -> None:
    extractor = Extractor()

    with pytest.raises(ExtractionFailed, match=r"output_schema: 'objec' .* at \$\.type"):
        extract({"type": "objec"}, "{}", extractor)
    assert extractor.asked == []


def test_the_hint_ends_with_the_indented_schema() -> None:
    hint = schema_hint({"type": "string"})

    assert hint.startswith("\n\n")
    assert hint.endswith('\nSchema:\n{\n  "type": "string"\n}')


def test_a_conforming_output_asks_no_extractor() -> None:
    extractor = Extractor()

    value = extract(PERSON, '```json\n{"name": "Ada"}\n```', extractor)

    assert value == {"name": "Ada"}
    assert extractor.asked == []


def test_the_last_turn_alone_may_be_the_value() -> None:
    extractor = Extractor()

    value = extract(PERSON, 'Looking.\n{"name": "Ada"}', extractor, last_turn='{"name": "Ada"}')

    assert value == {"name": "Ada"}
    assert extractor.asked == []


def test_the_extractor_gets_the_schema_and_the_text() -> None:
    extractor = Extractor('{"name": "Ada"}')

    value = extract(PERSON, "Her name is Ada.", extractor)

    assert value == {"name": "Ada"}
    [[system, user]] = extractor.asked
    assert system["role"] == "system"
    assert '"required"' in user["content"]
    assert "Her name is Ada." in user["content"]


def test_the_repair_gets_the_first_reply_and_what_was_wrong_with_it() -> None:
    extractor = Extractor('{"name": 7}', '{"name": "Ada"}')

    value = extract(PERSON, "Her name is Ada.", extractor)

    assert value == {"name": "Ada"}
    repair = extractor.asked[1][-1]["content"]
    assert '{"name": 7}' in repair
    assert "$.name: 7 is not of type 'string'" in repair
    assert "Her name is Ada." not in repair


def test_a_second_unfit_reply_fails_the_extraction() -> None:
    extractor = Extractor("no", "still no " + "x" * 1_000)

    with pytest.raises(ExtractionFailed) as failure:
        extract(PERSON, "Her name is Ada.", extractor)

    assert "not valid JSON" in str(failure.value)
    assert "last reply: still no" in str(failure.value)
    assert len(str(failure.value)) < 600
    assert len(extractor.asked) == 2


def test_a_failing_extractor_call_is_a_failed_extraction() -> None:
    def ask(_messages: Sequence[Message]) -> str:
        raise ModelCallFailed("HTTP 500: oops")

    with pytest.raises(ExtractionFailed, match="HTTP 500: oops"):
        extract(PERSON, "prose", ask)
