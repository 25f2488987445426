"""Messages as providers take them back."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.llm.client import ModelRequest
from sleipnir.worker.llm.provider.answer import assistant_message
from sleipnir.worker.llm.provider.history import marked, messages_for

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "1"}
USER = {"role": "user", "content": "Go."}


def sent_back(said: dict[str, Any], by: str = "one", to: str = "one", **options: Any) -> Any:
    """A message of one provider, as it is sent to another."""
    message = marked(assistant_message(said), by)
    return messages_for(ModelRequest(f"{to}:m", [USER, message, RESULT]), **options)[1]


@pytest.mark.parametrize("content", [None, ""])
def test_a_message_with_calls_has_a_content(content: str | None) -> None:
    sent = sent_back({"content": content, "tool_calls": [CALL]})

    assert sent == {"role": "assistant", "content": "", "tool_calls": [CALL]}


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_goes_back_to_who_sent_it_in_the_name_it_had(name: str) -> None:
    said = {"content": "", name: "hm", "tool_calls": [CALL]}
    plain = {"role": "assistant", "content": "", "tool_calls": [CALL]}

    assert sent_back(said) == {**plain, name: "hm"}
    assert sent_back(said, reasoning=False) == plain
    assert sent_back(said, to="two") == plain


def test_thoughts_in_the_text_go_back_to_nobody() -> None:
    sent = sent_back({"content": "<think>hm</think>", "tool_calls": [CALL]})

    assert sent == {"role": "assistant", "content": "", "tool_calls": [CALL]}


def test_what_only_one_provider_knows_goes_to_no_other() -> None:
    signed = {**CALL, "extra_content": {"signature": "x"}}
    said = {"content": "a", "thinking_blocks": [{"signature": "y"}], "tool_calls": [signed]}

    assert sent_back(said) == {"role": "assistant", **said}
    assert sent_back(said, to="two") == {"role": "assistant", "content": "a", "tool_calls": [CALL]}


def test_reasoning_of_unknown_origin_stays() -> None:
    stored = {"role": "assistant", "reasoning_content": "hm", "tool_calls": [CALL]}

    (sent,) = messages_for(ModelRequest("one:m", [stored]))

    assert sent == {"role": "assistant", "content": "", "tool_calls": [CALL]}


def test_no_user_speaks_right_behind_a_result() -> None:
    assistant = {"role": "assistant", "content": None, "tool_calls": [CALL]}

    sent = messages_for(ModelRequest("one:m", [USER, assistant, RESULT, USER, assistant, RESULT]))

    roles = [message["role"] for message in sent]
    assert roles == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
    assert sent[3]["content"]
