"""Replies that come in pieces: what is collected of them, and that they end up the same."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field

import pytest

from sleipnir.records import dataclass
from sleipnir.worker.llm.client import (
    OPENAI_COMPATIBLE,
    Endpoint,
    ModelCallFailed,
    ModelRequest,
    Reply,
    complete,
)
from sleipnir.worker.visit.cancellation import Cancellation
from tests.support.model_server import ModelServer, calls, fails, says
from tests.support.model_server import Reply as ServerReply
from tests.support.streamed_calls import SHAPES

pytestmark = pytest.mark.usefixtures("each_client")

REQUEST = ModelRequest(
    "openai:gpt-4o-mini", [{"role": "user", "content": "hello"}], temperature=0.5
)


@dataclass
class Collector:
    """Keeps what it hears."""

    texts: list[str] = field(default_factory=list)
    ends: int = 0

    def on_text(self, text: str) -> None:
        self.texts.append(text)

    def end(self) -> None:
        self.ends += 1


def both(server: ModelServer, reply: ServerReply) -> tuple[Reply, Reply, Collector]:
    """The reply whole, then in pieces, and what was collected of it."""
    server.script.add(reply, reply)
    collected = Collector()
    return complete(REQUEST), complete(REQUEST, listener=collected), collected


def test_a_streamed_text_is_heard_and_is_the_same(server: ModelServer) -> None:
    reply = says("one two  three\n", prompt_tokens=1_000, completion_tokens=100)

    whole, streamed, collected = both(server, reply)

    assert "".join(collected.texts) == streamed.text == whole.text == "one two  three\n"
    assert len(collected.texts) == 3
    assert collected.ends == 1
    assert streamed.usage == whole.usage
    assert streamed.usage.cost_usd


def test_streamed_calls_are_put_together(server: ModelServer) -> None:
    reply = calls(("search", {"query": "a b"}), ("fetch", {"url": "x"}), text="Let me see.")

    whole, streamed, collected = both(server, reply)

    assert streamed.calls == whole.calls
    assert [call.name for call in streamed.calls] == ["search", "fetch"]
    assert streamed.text == "".join(collected.texts) == "Let me see."


# litellm gives a call without an index one, so a name of its own there may be a piece of the last,
# and warns of arguments that are no text.
DIRECT_ONLY = {"neither index nor id nor arguments", "arguments as an object"}


@pytest.mark.parametrize("shape", sorted(SHAPES.keys() - DIRECT_ONLY))
def test_calls_are_told_apart_in_every_shape(server: ModelServer, shape: str) -> None:
    pieces, expected = SHAPES[shape]
    deltas = [{"tool_calls": [each]} for each in pieces]
    server.script.add(ServerReply(deltas=deltas, finish="tool_calls"))

    streamed = complete(REQUEST, listener=Collector())

    assert [(call.name, call.arguments) for call in streamed.calls] == expected


def test_a_model_may_repeat_itself(server: ModelServer) -> None:
    whole, streamed, _ = both(server, says("again " * 150))

    assert streamed.text == whole.text


def test_settings_are_sent_with_a_streamed_request_too(server: ModelServer) -> None:
    both(server, says("hi"))

    whole, streamed = (request.body for request in server.requests)
    assert streamed.pop("stream") is True
    assert streamed.pop("stream_options") == {"include_usage": True}
    assert streamed == whole


def test_a_reply_that_breaks_off_is_a_failure(server: ModelServer) -> None:
    collected = Collector()
    server.script.add(says("one two three", fault="cut"))

    with pytest.raises(ModelCallFailed, match="Connection reset"):
        complete(REQUEST, listener=collected)

    assert collected.texts == ["one"]
    assert collected.ends == 1


def test_an_error_in_place_of_a_stream_says_what_it_always_does(server: ModelServer) -> None:
    server.script.add(fails(429, "slow down", {"Retry-After": "2"}))

    with pytest.raises(ModelCallFailed, match=r"^HTTP 429: slow down$") as raised:
        complete(REQUEST, listener=Collector())

    assert raised.value.retry_after_s == 2.0


def test_a_streamed_reply_ends_at_its_time_limit(server: ModelServer) -> None:
    server.script.add(says("one two three", pause_s=0.2))

    with pytest.raises(ModelCallFailed, match=r"^timed out after 0\.3s$"):
        complete(REQUEST, 0.3, listener=Collector())


def test_a_stream_that_falls_silent_is_given_up_long_before_its_time_limit(
    server: ModelServer,
) -> None:
    collected = Collector()
    server.script.add(says("one two three", pause_s=600))

    with pytest.raises(ModelCallFailed, match=r"^timed out: no more came for 0\.5s") as raised:
        complete(REQUEST, 600, listener=collected, stall_s=0.5)

    assert raised.value.kind == "timed_out"
    assert collected.ends == 1


def test_a_slow_stream_is_not_a_silent_one(server: ModelServer) -> None:
    server.script.add(says("one " * 10, pause_s=0.4))

    assert complete(REQUEST, 600, listener=Collector(), stall_s=3).text == "one " * 10


def test_a_reply_that_nobody_wants_any_more_is_broken_off(server: ModelServer) -> None:
    class Gone(Collector):
        def on_text(self, text: str) -> None:
            super().on_text(text)
            cancellation.set()

    server.script.add(says("on and " * 1_000, pause_s=0.1))
    cancellation, gone = Cancellation(), Gone()

    with pytest.raises(ModelCallFailed, match="the run no longer needs this reply"):
        complete(REQUEST, listener=gone, cancellation=cancellation)

    assert (len(gone.texts), gone.ends) == (1, 1)


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
def test_a_stream_that_cannot_be_read_is_hung_up_on_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:
        served = pool.submit(say_oddly, listening)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        endpoint = Endpoint(f"{OPENAI_COMPATIBLE}/m", api_base=url, api_key="k")

        # What is raised refers to all that took part.
        with pytest.raises(ModelCallFailed):
            complete(REQUEST, 60, endpoint, Collector())

        assert served.result(timeout=90)


def say_oddly(listening: socket.socket) -> bool:
    """Start a stream with what is no piece of a reply; returns when the other side hangs up."""
    listening.settimeout(60)
    connection, _ = listening.accept()
    with connection:
        connection.settimeout(60)
        connection.recv(1)
        connection.sendall(
            b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {"choices": 5}\n\n'
        )
        try:
            while connection.recv(65_536):
                pass
        except ConnectionResetError:
            pass
    return True
