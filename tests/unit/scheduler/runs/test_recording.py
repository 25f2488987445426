"""Recordings that people wrote, or something else did."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.recording import RecordedCall, read


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ({"reply": {"content": 5}}, "'content' of the reply is not a string"),
        ({"reply": {"content": ["a"]}}, "'content' of the reply is not a string"),
        ({"reply": {"tool_calls": 7}}, "'tool_calls' of the reply is not a list"),
        ({"reply": {"tool_calls": [{"id": 1, "function": {}}]}}, "'tool_calls' of the reply"),
        ({"reply": {}, "request": {"messages": 5}}, "'messages' of the request is not a list"),
        ({"reply": {}, "request": {"messages": [5]}}, "a message of the request is not an object"),
        ({"reply": {}, "request": {"settings": [1]}}, "'settings' of the request is not an object"),
    ],
)
def test_what_is_not_a_model_call_is_refused_with_its_line(
    call: dict[str, Any], reason: str
) -> None:
    sound = json.dumps({"reply": {"content": "a"}})

    with pytest.raises(SubmissionRefused, match="file:2: this is not .*" + reason):
        read(f"{sound}\n{json.dumps(call)}\n", "file")


def test_calls_of_functions_are_taken() -> None:
    asked = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    reply = {"role": "assistant", "content": None, "tool_calls": [asked]}

    assert read(json.dumps({"reply": reply}), "file") == [RecordedCall(reply)]
