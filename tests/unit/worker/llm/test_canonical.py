"""When two requests are the same one, what differs between two, and what no recording may hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sleipnir.worker.llm.client import ModelRequest
from sleipnir.worker.llm.recording.canonical import canonical, digest_of
from sleipnir.worker.llm.recording.difference import difference, nearest
from sleipnir.worker.llm.recording.redaction import redacted

SECRET = 'a "quoted"\nsecret'
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
REQUEST = ModelRequest(
    "openai:m",
    [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello."}],
    [TOOL],
    temperature=0.5,
)


def digest(request: ModelRequest) -> str:
    return digest_of(canonical(request))


def test_the_order_of_fields_makes_no_difference() -> None:
    turned = [dict(reversed(message.items())) for message in REQUEST.messages]

    assert digest(replace(REQUEST, messages=turned)) == digest(REQUEST)


@pytest.mark.parametrize(
    "change",
    [
        {"model": "openai:n"},
        {"messages": list(reversed(REQUEST.messages))},
        {"messages": [*REQUEST.messages, {"role": "user", "content": "?"}]},
        {"tools": []},
        {"temperature": 0.6},
        {"max_tokens": 9},
        {"temperature": None},
        {"top_p": 0.5},
        {"reasoning_effort": "high"},
        {"seed": 7},
        {"stop": "END"},
        {"params": {"top_k": 5}},
    ],
)
def test_everything_else_does(change: dict[str, Any]) -> None:
    assert digest(replace(REQUEST, **change)) != digest(REQUEST)


def test_the_digest_never_changes() -> None:
    # Recordings that people keep would be of no use any more.
    assert digest(REQUEST) == "0d83622011f2b730b7356ff8c61b5f23f5c1f5bba98f25725ac0526dba56adca"


def test_secrets_are_masked_wherever_a_text_is() -> None:
    call = {
        "id": SECRET,
        "function": {"name": "f", "arguments": '{"x": "a \\"quoted\\"\\nsecret"}'},
    }
    message = {"role": "user", "content": [{"type": "text", "text": f"<{SECRET}> sk-123456789"}]}

    masked = redacted({"messages": [message], "tool_calls": (call,), "n": 1}, [SECRET])

    assert masked["messages"][0]["content"] == [{"type": "text", "text": "<***> ***"}]
    assert masked["tool_calls"][0]["function"] == {"name": "f", "arguments": '{"x": "***"}'}
    # What calls and results refer to each other by stays.
    assert (masked["tool_calls"][0]["id"], masked["n"]) == (SECRET, 1)


def asked(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def test_the_nearest_request_has_most_lines_in_common() -> None:
    requests = [asked("a\nb\nc"), asked("a\nx\nc"), asked("z")]

    forms = [asked("y"), asked("a\ny\nc\nx")]

    assert nearest(forms, requests) == (requests[1], forms[1])
    assert nearest(forms, []) is None


def test_a_difference_is_short() -> None:
    long = "\n".join(f"line {number} {'x' * 500}" for number in range(100))

    lines = difference(asked("hello", settings={"temperature": 1}), asked(long)).split("\n")

    assert lines[:2] == ["--- recorded", "+++ asked"]
    assert "-temperature: 1" in lines
    assert lines[-1].startswith("… and ")
    assert (len(lines), max(map(len, lines)) < 200) == (31, True)
