"""Recordings that people wrote, or something else did."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.recording import (
    MadeWith,
    RecordedCall,
    made_with,
    model_calls,
    read,
    written,
)


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


def test_it_says_what_it_was_made_with() -> None:
    made = MadeWith(model="openai:m", temperature=0.5, mcp_server_support=False, prompt="Hi.")
    text = written([made, RecordedCall({"content": "Hello."})])

    entries = read(text, "calls.jsonl")

    assert made_with(entries) == made
    assert made.settings() == {"model": "openai:m", "temperature": 0.5, "mcp_server_support": False}
    assert len(model_calls(entries)) == 1
    assert made_with(read("", "calls.jsonl")) is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("[]", "'made_with' is not an object"),
        ('{"api_key": "x"}', "'made_with' has the unknown field 'api_key'"),
        ('{"temperature": true}', "'temperature' of 'made_with' has the wrong type"),
        ('{"mcp_tools": {"s": "*"}}', "'mcp_tools' of 'made_with' has the wrong type"),
        ('{"model": null}', "'model' of 'made_with' has the wrong type"),
    ],
)
def test_it_cannot_set_anything_else(given: str, expected: str) -> None:
    with pytest.raises(SubmissionRefused, match=re.escape(expected)):
        read(f'{{"made_with": {given}}}', "calls.jsonl")
