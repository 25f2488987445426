"""Streams of events, and the replies that are put together from them."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.llm.client import ReplyTooLarge
from sleipnir.worker.llm.provider.answer import NotACompletion
from sleipnir.worker.llm.provider.event_stream import StreamedReply, events

STREAM = b": wait\n\nevent: x\ndata: one\ndata:two\n\n\ndata: caf\xc3\xa9\nid: 7\n\ndata: last"


@pytest.mark.parametrize("size", [1, 2, 7, 1_000])
def test_events_are_read_however_the_stream_is_cut(size: int) -> None:
    pieces = [STREAM[start : start + size] for start in range(0, len(STREAM), size)]

    assert list(events(pieces)) == ["one\ntwo", "café", "last"]


def a_piece(**delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


def a_call(**fields: Any) -> dict[str, Any]:
    return a_piece(tool_calls=[fields])


def put_together(*pieces: dict[str, Any]) -> dict[str, Any]:
    reply = StreamedReply(1_000)
    for piece in pieces:
        reply.take(piece)
    return reply.message()


def test_texts_are_joined_and_only_the_words_are_heard() -> None:
    reply = StreamedReply(1_000)
    pieces = [
        a_piece(role="assistant", content=""),
        a_piece(reasoning_content="hm"),
        a_piece(content="a", reasoning_content=None),
        a_piece(content=[{"type": "text", "text": "b"}]),
        {"choices": [], "usage": {"prompt_tokens": 3}},
    ]

    assert [reply.take(piece) for piece in pieces] == ["", "", "a", "b", ""]
    assert reply.message() == {"content": "ab", "reasoning_content": "hm"}
    assert reply.usage == {"prompt_tokens": 3}


def test_calls_come_side_by_side() -> None:
    message = put_together(
        a_call(index=0, id="a", function={"name": "f", "arguments": ""}),
        a_call(index=1, id="b", function={"name": "g", "arguments": "{"}),
        a_call(index=0, function={"arguments": "{}"}),
        a_call(index=1, id="", function={"name": "", "arguments": "}"}),
    )

    said = [(call["id"], call["function"]) for call in message["tool_calls"]]
    assert said == [
        ("a", {"name": "f", "arguments": "{}"}),
        ("b", {"name": "g", "arguments": "{}"}),
    ]


def test_a_name_begins_a_call_where_servers_do_not_count_them() -> None:
    message = put_together(
        a_call(function={"name": "f", "arguments": "{"}),
        a_call(function={"arguments": "}"}),
        a_call(function={"name": "f", "arguments": {"at": 1}}),
    )

    arguments = [call["function"]["arguments"] for call in message["tool_calls"]]
    assert arguments == ["{}", '{"at": 1}']


@pytest.mark.parametrize(
    "piece",
    [
        5,
        {"choices": 5},
        {"choices": [5]},
        {"choices": [{"delta": 5}]},
        a_piece(content=5),
        a_piece(tool_calls=5),
        a_piece(tool_calls=[5]),
        a_call(index=0, function=5),
    ],
    ids=repr,
)
def test_what_is_no_piece_of_a_reply_is_refused(piece: Any) -> None:
    with pytest.raises(NotACompletion):
        StreamedReply(1_000).take(piece)


def test_arguments_count_as_texts_do() -> None:
    reply = StreamedReply(10)
    reply.take(a_piece(content="12345"))

    with pytest.raises(ReplyTooLarge):
        reply.take(a_call(index=0, function={"name": "f", "arguments": "123456"}))


def test_no_stream_begins_calls_without_end() -> None:
    calls = [{"index": index, "function": {"name": "f"}} for index in range(30_000)]

    with pytest.raises(ReplyTooLarge):
        StreamedReply(10_000_000).take(a_piece(tool_calls=calls))
