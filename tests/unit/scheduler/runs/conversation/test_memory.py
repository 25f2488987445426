"""What a session's next run remembers of a reply that was cut short."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.scheduler.runs.conversation.memory import carried_over

ASKED = {"role": "user", "content": "Tell me."}
CALLED = {"role": "assistant", "content": "Let me see.", "tool_calls": [{"id": "a"}]}
FOUND = {"role": "tool", "tool_call_id": "a", "content": "5"}


def cut(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": f"{text}[The user interrupted this reply.]"}


@pytest.mark.parametrize(
    ("turns", "said", "expected"),
    [
        ({}, "", [[ASKED, cut("")]]),
        ({}, "Once upon \n", [[ASKED, cut("Once upon\n\n")]]),
        (
            {"turn 1": [{"role": "system", "content": "Talk."}, ASKED, CALLED, FOUND]},
            "It is",
            [[ASKED, CALLED, FOUND], [cut("It is\n\n")]],
        ),
    ],
)
def test_the_message_and_the_beginning_of_the_reply_stay(
    turns: dict[str, Any], said: str, expected: list[list[Any]]
) -> None:
    found = carried_over({"initial_prompt": "Tell me.", **turns}, said)

    assert list(found.values()) == expected


def test_a_reply_that_was_not_cut_short_adds_nothing() -> None:
    assert carried_over({"initial_prompt": "Tell me."}) == {}
