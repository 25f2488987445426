"""A conversation with a model as the terminal shows it."""

from __future__ import annotations

from typing import Any

import click

from sleipnir.scheduler.views.text.transcripts import transcript_lines

CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}


def exchange(*messages: dict[str, Any], **reply: Any) -> dict[str, Any]:
    return {
        "model": "openai:m",
        "messages": list(messages),
        "reply": {"role": "assistant", **reply},
        "usage": [10, 5, 0.001, 0],
        "seconds": 1.26,
        "source": "cached",
    }


def shown(index: int | None = None, attempt: int = 1, *, failed: bool = False) -> list[str]:
    asked = {"role": "user", "content": "Look\nat \x1b[31mit"}
    entry = {
        "step": 3,
        "node": "ask",
        "index": index,
        "attempt": attempt,
        "failed": failed,
        "exchanges": [exchange(asked, content=None, tool_calls=[CALL])],
    }
    return [click.unstyle(line) for line in transcript_lines(entry)]


def test_each_line_says_where_it_is_from() -> None:
    assert shown() == [
        "3 ask user | Look",
        "3 ask user | at \\x1b[31mit",
        '3 ask assistant | calls look {"at": "x"}',
        "3 ask openai:m: 15 tokens, $0.0010, 1.3 s, cached",
    ]


def test_a_schema_that_was_a_field_of_the_request_is_named() -> None:
    entry = {"step": 3, "node": "ask", "index": None, "attempt": 1, "failed": False}
    asked = exchange({"role": "user", "content": "Look"}, content="{}")

    lines = list(transcript_lines({**entry, "exchanges": [{**asked, "native": True}]}))

    assert click.unstyle(lines[-1]).endswith("1.3 s, cached, schema in response_format")


def test_files_are_told_by_their_type_name_and_size() -> None:
    entry = {"step": 3, "node": "ask", "index": None, "attempt": 1, "failed": False}
    file = {"sha256": "0" * 64, "bytes": 12_345, "type": "image/png", "name": "a\x1b.png"}
    asked = exchange({"role": "user", "content": [file, {"type": "text", "text": "Look"}]})

    lines = map(click.unstyle, transcript_lines({**entry, "exchanges": [asked]}))

    assert list(lines)[:2] == [
        "3 ask user | attached: a\\x1b.png (image/png, 12,345 bytes)",
        "3 ask user | Look",
    ]


def test_items_and_attempts_are_told_apart() -> None:
    assert shown(7, 2, failed=True)[0] == "3 ask[7] attempt 2, failed"


def test_of_a_failed_call_the_reason_takes_the_place_of_the_reply() -> None:
    asked = {"role": "user", "content": "Look"}
    failed = {
        **exchange(asked),
        "earlier": 1_200,
        "reply": None,
        "error": {"kind": "too_long", "status": 400, "message": "HTTP 400: too\nlong"},
    }
    entry = {"step": 3, "node": "ask", "index": None, "attempt": 1, "try": 2, "failed": True}

    lines = [click.unstyle(line) for line in transcript_lines({**entry, "exchanges": [failed]})]

    assert lines == [
        "3 ask try 2, attempt 1, failed",
        "3 ask after 1,200 earlier messages",
        "3 ask user | Look",
        "3 ask failed | HTTP 400: too",
        "3 ask failed | long",
        "3 ask openai:m: no reply, 1.3 s",
    ]
