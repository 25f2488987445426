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


@pytest.mark.parametrize(
    ("text", "thoughts"),
    [
        ("<think>why?</think>because", "why?"),
        ("<think>why?</think>\n\nbecause", "why?"),
        ("\n <think>\nwhy?\n</think>\nbecause", "why?"),
        ("<Think>why?</THINK>because", "why?"),
        ("<thinking>why?</thinking>because", "why?"),
        ("<thought>why?</thought>because", "why?"),
        ("<think>why?</think>\n<think>so?</think>because", "why?\nso?"),
        ("why?\n</think>\n\nbecause", "why?"),
        ("why?</think>because", "why?"),
        ("</think>\nbecause", None),
        ("<think>why?</think>\n</think>because", "why?"),
        ("<think>\n\n</think>\n\nbecause", None),
        ("why?\n</think><think>so?</think>because", "why?\nso?"),
    ],
)
def test_thoughts_are_no_part_of_what_is_said(text: str, thoughts: str | None) -> None:
    message = assistant_message({"content": text})

    assert (message["content"], message.get("thoughts")) == ("because", thoughts)


@pytest.mark.parametrize(
    "text",
    [
        "Use the <think> tag and the </think> tag.",
        "It ends with </think> in most models.",
        "It ends with `</think>`\nor so.",
        "As in:\n<think>\nhm\n</think>\nDone.",
        "<think>never closed",
        "<thinker>x</thinker>",
        "\n plain ",
    ],
)
def test_a_text_that_mentions_the_tags_is_left_alone(text: str) -> None:
    assert assistant_message({"content": text}) == {"role": "assistant", "content": text}


def test_a_text_that_is_cut_off_within_the_thoughts_says_nothing() -> None:
    message = assistant_message({"content": "<think>never clo"}, "length")

    assert (message["content"], message["thoughts"]) == ("", "never clo")


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
