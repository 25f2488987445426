"""Turns that achieve nothing, and what models are told of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from sleipnir.scheduler.runs.conversation.progress import standstill, with_notices

FAILED = json.dumps({"tool_call_error": "there is no tool 'wipe'"})
ALERT = json.dumps({"tool_call_loop_alert": {"error": {}}})


def turn(*calls: tuple[str, Any, str]) -> list[Mapping[str, Any]]:
    """A reply that calls functions, given as (name, arguments, result)."""
    made = [
        {"id": f"c{place}", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for place, (name, arguments, _) in enumerate(calls)
    ]
    results = [
        {"role": "tool", "tool_call_id": f"c{place}", "content": result}
        for place, (*_, result) in enumerate(calls)
    ]
    return [{"role": "assistant", "content": "", "tool_calls": made}, *results]


def conversation(*turns: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [{"role": "user", "content": "Go."}, *(each for turn in turns for each in turn)]


EQUAL = turn(("wipe", {}, FAILED))


@pytest.mark.parametrize(
    "turns",
    [
        [EQUAL] * 4,
        [EQUAL, turn(("wipe", {}, ALERT))] * 2,
        [turn(("wipe", {"n": n}, FAILED)) for n in range(4)],
        [turn(("wipe", {}, FAILED), ("todo__done", {}, '{"error": "no such item"}'))] * 4,
        [turn(("agent__cancel", {"id": n}, '{"status": "error", "message": "?"}')) for n in "abcd"],
        [turn(("mcp", {"n": n}, '{"isError": true, "content": []}')) for n in range(4)],
        [turn(("look", {}, "1"))] * 5,
        [turn(("look", {}, "1")), turn(("see", {}, "2"))] * 3,
        [EQUAL, [{"role": "assistant", "content": "Hm."}]] * 4,
    ],
)
def test_turns_that_achieve_nothing_are_a_standstill(turns: Any) -> None:
    found = standstill(conversation(*turns), 4)

    assert found is not None
    assert found.turns == 4


@pytest.mark.parametrize(
    "turns",
    [
        [EQUAL] * 3,
        [turn(("look", {}, str(n))) for n in range(9)],
        [turn(("look", {"n": n}, "none")) for n in range(9)],
        [*[EQUAL] * 3, turn(("look", {}, "1")), *[EQUAL] * 3],
        [*[EQUAL] * 9, turn(("wipe", {}, FAILED), ("look", {}, "1"))],
        [turn(("read", {"n": n}, '{"error": "not found"}')) for n in range(9)],
        [turn(("read", {"n": n}, 'says "tool_call_error"')) for n in range(9)],
    ],
)
def test_a_new_result_is_progress(turns: Any) -> None:
    assert standstill(conversation(*turns), 4) is None


def test_the_reason_names_the_last_call() -> None:
    found = standstill(conversation(*[EQUAL] * 4), 4)

    assert found is not None
    assert found.last == "wipe: there is no tool 'wipe'"


def test_a_model_is_told_from_the_third_equal_failure_on() -> None:
    other = turn(("note", {}, FAILED))

    second = with_notices(conversation(EQUAL, other), EQUAL, 25)
    third = with_notices(conversation(EQUAL, other, second, other), EQUAL, 25)
    fourth = with_notices(conversation(EQUAL, other, second, other, third), EQUAL, 25)

    assert second == EQUAL
    for told in (third, fourth):
        said = json.loads(told[1]["content"])
        assert said["tool_call_error"] == "there is no tool 'wipe'"
        assert "several times" in said["notice"]


def test_other_arguments_or_another_failure_bring_no_notice() -> None:
    other = turn(("wipe", {}, json.dumps({"tool_call_error": "busy"})))
    before = conversation(turn(("wipe", {"n": 1}, FAILED)), other, other)

    assert with_notices(before, EQUAL, 25) == EQUAL
