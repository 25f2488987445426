"""How much of a model's reply is taken: it is given up while it still comes."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.worker.llm.client import (
    ModelCallFailed,
    ModelRequest,
    ReplyTooLarge,
    complete,
)
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, says
from tests.support.wait import wait_until

pytestmark = pytest.mark.usefixtures("each_client")

LIMIT = 32 * 1024
# What the kernel takes off a server's hands before anybody reads it.
ON_THE_WAY = 64 * 1024 * 1024
REQUEST = ModelRequest("openai:gpt-4o-mini", [{"role": "user", "content": "hello"}])


class Deaf:
    """Makes a reply come in pieces, and heeds none."""

    def on_text(self, text: str) -> None:
        pass

    def end(self) -> None:
        pass


@pytest.mark.parametrize("listener", [None, Deaf()], ids=["whole", "streamed"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("text", ["word ", "long " * 500], ids=["words", "pages"])
def test_an_endless_reply_is_given_up(
    server: ModelServer, listener: Any, packed: bool, text: str
) -> None:
    server.script.add(says(text, fault="flood", packed=packed))

    with pytest.raises(ReplyTooLarge, match=rf"larger than {LIMIT} bytes \(reply_limit_bytes\)$"):
        complete(REQUEST, 120, listener=listener, limit_bytes=LIMIT)

    # The server hears of it at once, and not when somebody collects garbage.
    wait_until(lambda: server.flooded_bytes, "the connection is closed", 60)
    assert server.flooded_bytes[0] < ON_THE_WAY


def test_a_reply_of_many_words_is_put_together_as_it_was_said(server: ModelServer) -> None:
    words = "".join(f"{number} " for number in range(1_000)) + "end"
    call = ({"name": "note", "arguments": {"text": words}},)
    server.script.add(says(words, calls=call))

    reply = complete(REQUEST, 120, listener=Deaf())

    assert reply.text == words
    (called,) = reply.calls
    assert words in called.arguments


def test_what_a_reply_says_counts_and_not_what_streaming_adds(server: ModelServer) -> None:
    words = "a " * 500
    server.script.add(says(words), says(words))

    assert complete(REQUEST, 120, listener=Deaf(), limit_bytes=20_000).text == words
    with pytest.raises(ReplyTooLarge):
        complete(REQUEST, 120, listener=Deaf(), limit_bytes=999)


def test_a_packed_reply_is_read_though_nobody_asked_for_it(server: ModelServer) -> None:
    server.script.add(says("hello", packed=True))

    assert complete(REQUEST, 120).text == "hello"
    assert server.requests[0].headers["accept-encoding"] == "identity"


def test_an_unknown_packing_is_a_failure(server: ModelServer) -> None:
    server.script.add(says("hello", headers={"Content-Encoding": "br"}))

    with pytest.raises(ModelCallFailed, match="unsupported encoding 'br'"):
        complete(REQUEST, 120)


def test_a_node_fails_with_the_limit_and_is_not_tried_again(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(reply_limit_bytes=LIMIT)
    server.script.add(says("word ", fault="flood"))

    run = engine.finish(
        """
        model: openai:m
        start: ask
        nodes:
          ask:
            type: llm
            prompt: hi
            max_attempts: 3
            next: done
            state_updates: {said: "{{output}}"}
          done: {type: end, output: "{{said}}"}
        """
    )

    assert run.output == (
        f"LLM node failed: the reply is larger than {LIMIT} bytes (reply_limit_bytes)"
    )
    assert len(server.requests) == 1
    assert_consistent(engine.redis, runs=1)
