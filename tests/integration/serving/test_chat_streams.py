"""Replies of served agents as streams: their text as it comes, silence, and clients that leave."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from openai import OpenAI

from sleipnir.worker.monitor.serving.chat import replies
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says
from tests.support.site import KEY, ServedSite
from tests.support.wait import wait_until

TALKER = "model: openai:m\n"
FAILS = """
settings: {tolerate_failures: false}
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""


def texts(stream: Any) -> Iterator[str]:
    """The pieces of a reply."""
    for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            yield chunk.choices[0].delta.content


def ask(chat: OpenAI, model: str, text: str = "Go.", **options: Any) -> Any:
    """Send a message to an agent; returns the stream of its reply."""
    messages: Any = [{"role": "user", "content": text}]
    return chat.chat.completions.create(model=model, messages=messages, stream=True, **options)


@contextmanager
def opened(site: ServedSite, text: str, key: str, **fields: Any) -> Iterator[socket.socket]:
    """A connection over which a message was sent to `echo`; it is closed with the block."""
    messages = [{"role": "user", "content": text}]
    body = json.dumps({"model": "echo", "messages": messages, "stream": True, **fields})
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{site.port}\r\n"
        f"Authorization: Bearer {KEY}\r\nIdempotency-Key: {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", site.port), timeout=60) as connection:
        connection.sendall(f"{head}{body}".encode())
        yield connection


def read(connection: socket.socket, most: int) -> bytes:
    """So many bytes of an answer, or all until its last event, which may come in fewer chunks."""
    found = b""
    while len(found) < most and b"[DONE]" not in found:
        found += connection.recv(most - len(found))
    return found


def test_the_text_comes_while_the_model_says_it(
    engine: Engine, chat: OpenAI, server: ModelServer
) -> None:
    engine.write_normal("talker", TALKER)
    text = " ".join(["word"] * 20)
    server.script.add(says(text, pause_s=0.05, prompt_tokens=4, completion_tokens=20))

    stream = ask(chat, "talker", stream_options={"include_usage": True})
    pieces = texts(stream)
    first = next(pieces)
    (run_id,) = engine.newest_runs()

    assert not engine.run(run_id).is_final
    assert first + "".join(pieces) == text
    assert engine.run(run_id).output == text


def test_a_stream_ends_as_the_protocol_says(chat: OpenAI) -> None:
    chunks = list(ask(chat, "echo", "Hello", stream_options={"include_usage": True}))

    first, *_, last, used = chunks
    assert first.choices[0].delta.role == "assistant"
    assert last.choices[0].finish_reason == "stop"
    assert (used.choices, used.usage.total_tokens) == ([], 0)
    assert "".join(texts(chunks)) == "Hello"
    assert len({chunk.id for chunk in chunks}) == 1


def test_what_is_said_before_a_call_is_part_of_the_stream(
    engine: Engine, chat: OpenAI, server: ModelServer
) -> None:
    engine.write_normal("talker", TALKER)
    looks = calls(("todo__list", {}), text="Let me look.")
    server.script.add(looks, says("It is empty."))

    assert "".join(texts(ask(chat, "talker"))) == "Let me look.\n\nIt is empty."


def test_a_silent_stream_has_comments(
    engine: Engine, idle_site: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "SILENCE_S", 0.05)

    with opened(idle_site, "Hello", "k") as connection:
        lines = connection.makefile("rb")
        for _ in range(3):
            assert any(line.startswith(b": ") for line in iter(lines.readline, b""))
        engine.drive()
        rest = b"".join(iter(lines.readline, b"data: [DONE]\n"))

    assert b'"content": "Hello"' in rest


def test_a_failure_is_an_event_of_the_stream(engine: Engine, chat: OpenAI) -> None:
    engine.write("broken", FAILS, {"s.sh": "exit 3"})

    with pytest.raises(openai.APIError) as failed:
        list(ask(chat, "broken"))

    (run_id,) = engine.newest_runs()
    assert failed.value.code == engine.failure(run_id).code


def test_a_stream_may_be_cut_at_every_byte(engine: Engine, site: ServedSite) -> None:
    def begin_of(size: int) -> bytes:
        with opened(site, "Grüße", "k") as connection:
            return read(connection, size)

    whole = begin_of(1_000_000)
    (run_id,) = engine.newest_runs()
    body = whole.index(b"\r\n\r\n")

    with ThreadPoolExecutor(4) as threads:
        begins = list(threads.map(begin_of, range(body, len(whole))))
    again = begin_of(1_000_000)

    assert [len(each) for each in begins[:-10]] == [*range(body, len(whole) - 10)]
    said = [
        json.loads(line[6:])["choices"][0]["delta"].get("content", "")
        for line in again.decode().splitlines()
        if line.startswith("data: {")
    ]
    assert "".join(said) == "Grüße"
    assert engine.newest_runs() == [run_id]
    wait_until(lambda: site.site.serving.waiting == 0, "all requests have ended")


def test_a_run_goes_on_without_its_client_unless_it_is_to_be_cancelled(
    engine: Engine, idle_site: ServedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replies, "LOOK_S", 0.05)
    ids = {}
    for key, metadata in (("kept", {}), ("ended", {"cancel_on_disconnect": "true"})):
        with opened(idle_site, "Hello", key, metadata=metadata) as connection:
            read(connection, 1)
            ids[key] = next(id for id in engine.newest_runs() if id not in ids.values())
    wait_until(lambda: engine.run(ids["ended"]).is_final, "the run is cancelled")

    engine.drive()

    assert engine.run(ids["ended"]).status == "cancelled"
    assert engine.run(ids["kept"]).output == "Hello"


def test_the_last_reply_of_a_graph_comes_while_the_model_says_it(
    engine: Engine, chat: OpenAI, server: ModelServer
) -> None:
    engine.write(
        "two",
        """
        model: openai:m
        start: first
        nodes:
          first: {type: llm, prompt: draft, state_updates: {draft: "{{output}}"}, next: last}
          last: {type: llm, prompt: "{{draft}}", state_updates: {all: "{{output}}"}, next: z}
          z: {type: end, output: "{{all}}"}
        """,
    )
    text = " ".join(["word"] * 20)
    server.script.add(says("A draft."), says(text, pause_s=0.05))

    pieces = texts(ask(chat, "two"))
    first = next(pieces)
    (run_id,) = engine.newest_runs()

    assert not engine.run(run_id).is_final
    assert first + "".join(pieces) == text
