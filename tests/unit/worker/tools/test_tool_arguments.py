"""Arguments of functions as people type them."""

from __future__ import annotations

from typing import Any

import click
import pytest

from sleipnir.graphs.tools.function import BashDetails, BashParameter
from sleipnir.worker.cli.arguments import read_arguments

SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "share": {"type": "number"},
        "deep": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "more": {"type": "object"},
        "mode": {"type": "string", "enum": ["fast", "slow"]},
        "maybe": {"type": ["integer", "null"]},
        "any": {},
    },
}


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("text", "5", "5"),
        ("text", "", ""),
        ("count", "5", 5),
        ("share", "5", 5),
        ("deep", "true", True),
        ("tags", '["a"]', ["a"]),
        ("more", '{"a": 1}', {"a": 1}),
        ("mode", "slow", "slow"),
        ("maybe", "null", None),
        ("any", "[1]", [1]),
        ("any", "plain", "plain"),
    ],
)
def test_a_value_is_read_as_its_parameter_wants_it(name: str, text: str, value: Any) -> None:
    assert read_arguments(SCHEMA, [(name, text)]) == {name: value}


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("count", "five", "'count' takes an integer, got 'five'"),
        ("count", "true", "'count' takes an integer, got 'true'"),
        ("deep", "1", "'deep' takes true or false, got '1'"),
        ("tags", "a", "'tags' takes a JSON array, got 'a'"),
        ("maybe", "x", "'maybe' takes an integer or null, got 'x'"),
        ("mode", "warp", "'mode' must be one of fast, slow, got 'warp'"),
        ("txt", "x", "there is no parameter 'txt'; did you mean 'text'?"),
    ],
)
def test_what_does_not_fit_is_said(name: str, text: str, complaint: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        read_arguments(SCHEMA, [(name, text)])

    assert refused.value.message == complaint


def test_single_values_win_over_the_object() -> None:
    found = read_arguments(SCHEMA, [("count", "2")], '{"count": 1, "text": "t"}')

    assert found == {"count": 2, "text": "t"}


def test_other_names_stand_for_parameters() -> None:
    found = read_arguments(
        SCHEMA, [("words", "w")], '{"n": 1}', BashDetails(aliases={"words": "text", "n": "count"})
    )

    assert found == {"text": "w", "count": 1}


def test_what_is_required_must_be_given() -> None:
    with pytest.raises(click.UsageError, match="missing count, text"):
        read_arguments({**SCHEMA, "required": ["count", "text"]}, [])


@pytest.mark.parametrize("text", ["[1]", "{", "text"])
def test_only_an_object_holds_all_arguments(text: str) -> None:
    with pytest.raises(click.UsageError, match="JSON object"):
        read_arguments(SCHEMA, [], text)


def test_a_parameter_is_given_once() -> None:
    with pytest.raises(click.UsageError, match="'tags' is given twice"):
        read_arguments(SCHEMA, [("tags", "[]"), ("tags", "[]")])


def test_an_open_schema_takes_any_name() -> None:
    schema = {"type": "object", "additionalProperties": True}

    assert read_arguments(schema, [("x", "1")]) == {"x": 1}


@pytest.mark.parametrize(
    ("text", "values"), [("mon", ["mon"]), ("mon,2", ["mon", "2"]), ('["a,b"]', ["a,b"])]
)
def test_a_list_with_a_separator_may_be_written_as_one_text(text: str, values: list[str]) -> None:
    bash = BashDetails((BashParameter("option", "tags", "tags", repeated=True, separator=","),))

    assert read_arguments(SCHEMA, [("tags", text)], bash=bash) == {"tags": values}
