"""Streams of events, and the replies that are put together from them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.worker.llm.client import ReplyTooLarge
from sleipnir.worker.llm.provider.answer import NotACompletion, assistant_message
from sleipnir.worker.llm.provider.event_stream import StreamedReply, events
from tests.support.streamed_calls import NOTE, SHAPES, WIPE, piece

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
    for each in pieces:
        reply.take(each)
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


@pytest.mark.parametrize("shape", SHAPES)
def test_a_stream_has_the_calls_of_the_plain_reply(shape: str) -> None:
    pieces, expected = SHAPES[shape]

    one_by_one = put_together(*(a_call(**each) for each in pieces))
    at_once = put_together(a_piece(tool_calls=pieces))

    calls = assistant_message(one_by_one)["tool_calls"]
    assert [(c["function"]["name"], c["function"]["arguments"]) for c in calls] == expected
    assert len({call["id"] for call in calls}) == len(expected)
    assert at_once == one_by_one


@pytest.mark.parametrize(
    "pieces",
    [
        [piece(*NOTE, index=0, id="a"), piece(None, '{"at": 1}', index=0)],
        [piece("note", '{"text": "a', index=0), piece(*WIPE, index=0)],
        [piece("note", '{"text": '), piece(None, "{}", id="b")],
    ],
)
def test_what_cannot_be_told_apart_is_no_call_that_nobody_made(pieces: list[Any]) -> None:
    message = assistant_message(put_together(*(a_call(**each) for each in pieces)))

    for call in message["tool_calls"]:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        assert (name, arguments) == WIPE or not (name and _is_json(arguments))


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def test_names_in_each_piece_are_not_checked_without_end() -> None:
    reply = StreamedReply(100_000)
    reply.take(a_call(**piece("note", '{"text": "', index=0)))

    for _ in range(20_000):
        reply.take(a_call(**piece("note", "}", index=0)))

    assert len(reply.message()["tool_calls"]) == 1


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
