"""Which failures of model calls pass by themselves."""

from __future__ import annotations

import pytest

from worker.llm.client import ModelCallFailed, Request
from worker.llm.estimate import ReplyLengths, prompt_tokens
from worker.llm.setbacks import setback_of


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("HTTP 429: slow down", "busy", "openai:m"),
        ("HTTP 503: overloaded", "busy", "openai:m"),
        ("HTTP 529: Overloaded", "busy", "openai:m"),
        ("HTTP 429: You exceeded your current quota", "quota", "openai"),
        ("HTTP 429: error insufficient_quota", "quota", "openai"),
        ("HTTP 402: payment required", "quota", "openai"),
        ("Connection refused at http://127.0.0.1:1", "outage", "openai"),
        ("Connection reset at http://127.0.0.1:1", "outage", "openai"),
        ("connecting at https://api.openai.com timed out", "outage", "openai"),
        ("no connection at https://api.openai.com: [Errno -2]", "outage", "openai"),
    ],
)
def test_what_passes_by_itself_is_a_setback(text: str, kind: str, name: str) -> None:
    setback = setback_of(ModelCallFailed(text), "openai", "openai:m")

    assert setback is not None
    assert (setback.kind, setback.name, setback.reason) == (kind, name, text)


@pytest.mark.parametrize(
    "text",
    ["HTTP 400: quota is no number", "HTTP 401: bad key", "timed out after 5s", "HTTP 500: x"],
)
def test_what_would_only_repeat_itself_is_none(text: str) -> None:
    assert setback_of(ModelCallFailed(text), "openai", "openai:m") is None


def test_what_the_server_asked_for_is_kept() -> None:
    setback = setback_of(ModelCallFailed("HTTP 429: x", 7.5), "openai", "openai:m")

    assert setback is not None
    assert setback.retry_after_s == 7.5


def test_a_prompt_is_estimated_by_its_length() -> None:
    short = Request("m", [{"role": "user", "content": "x" * 400}])
    tools = Request("m", short.messages, [{"type": "function", "function": {"name": "y" * 400}}])

    assert 100 <= prompt_tokens(short) <= 120
    assert prompt_tokens(tools) - prompt_tokens(short) >= 100


def test_expected_lengths_follow_what_was_seen() -> None:
    lengths = ReplyLengths(assumed=4096)
    assert lengths.expected("m") == 4096

    for _ in range(50):
        lengths.saw("m", 100)
    lengths.saw("m", 200)

    assert lengths.expected("m") == 110
