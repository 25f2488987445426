"""What servers say in one shape, however they say it."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.llm.provider.answer import NotACompletion, assistant_message


def test_nulls_and_empty_lists_are_left_out() -> None:
    said = {"role": "assistant", "content": "hi", "tool_calls": [], "refusal": None}

    assert assistant_message(said) == {"role": "assistant", "content": "hi"}


def test_a_text_may_come_in_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]

    assert assistant_message({"content": parts})["content"] == "ab"


def test_thoughts_are_no_part_of_what_is_said() -> None:
    message = assistant_message({"content": "<think>why?</think>\nbecause"})

    assert message["content"] == "\nbecause"
    assert message["reasoning_content"] == "why?"


def test_thoughts_that_come_apart_leave_the_text_alone() -> None:
    said = {"content": "<think>x</think>y", "reasoning": "z"}

    assert assistant_message(said)["content"] == "<think>x</think>y"


def test_calls_get_ids_names_and_arguments() -> None:
    calls = [
        {"index": 0, "function": {"name": "f", "arguments": {"n": float("inf")}}},
        {"index": 1, "id": "x", "type": "function", "function": {"name": "g"}},
    ]

    assert assistant_message({"tool_calls": calls})["tool_calls"] == [
        {"id": "call_0", "function": {"name": "f", "arguments": '{"n": null}'}},
        {"id": "x", "type": "function", "function": {"name": "g", "arguments": ""}},
    ]


def test_ids_that_are_made_up_are_nobodys() -> None:
    calls = [{"function": {"name": name}} for name in "fgh"]
    calls[1]["id"] = ""
    given = {"id": "call_1", "function": {"name": "i"}}

    found = assistant_message({"tool_calls": [*calls, given]})["tool_calls"]

    assert [(call["id"], call["function"]["name"]) for call in found] == [
        ("call_0", "f"),
        ("call_2", "g"),
        ("call_3", "h"),
        ("call_1", "i"),
    ]


def test_different_calls_with_one_id_are_all_made_and_a_repeated_one_once() -> None:
    calls = [
        {"id": "x", "function": {"name": "f", "arguments": '{"a": 1, "b": 2}'}},
        {"id": "x", "function": {"name": "f", "arguments": '{"b":2,"a":1}'}},
        {"id": "x", "function": {"name": "f", "arguments": '{"a": 2}'}},
        {"id": "x", "function": {"name": "g"}},
        {"id": "call_0", "function": None},
    ]

    found = assistant_message({"tool_calls": calls})["tool_calls"]

    assert [(call["id"], *call["function"].values()) for call in found] == [
        ("x", "f", '{"a": 1, "b": 2}'),
        ("call_1", "f", '{"a": 2}'),
        ("call_2", "g", ""),
        ("call_0", "", ""),
    ]


@pytest.mark.parametrize(
    "said",
    [{"content": 5}, {"content": [5]}, {"tool_calls": 5}, {"tool_calls": [{"function": 5}]}],
    ids=repr,
)
def test_what_is_no_message_is_refused(said: Any) -> None:
    with pytest.raises(NotACompletion):
        assistant_message(said)
