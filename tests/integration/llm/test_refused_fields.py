"""Fields that a server or a model refuses, and replies that are no stream."""

from __future__ import annotations

import pytest

from sleipnir.worker.llm.client import Listener, ModelCallFailed, ModelRequest, complete
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Request, fails, says
from tests.support.model_server import Reply as ServerReply

HELLO = [{"role": "user", "content": "hello"}]
REQUEST = ModelRequest("openai:home-made", HELLO, temperature=0.5, top_p=0.9)


class Collector(Listener):
    def __init__(self) -> None:
        self.heard = ""
        self.ends = 0

    def on_text(self, text: str) -> None:
        self.heard += text

    def end(self) -> None:
        self.ends += 1


def refuses(server: ModelServer, field: str, status: int, message: str) -> None:
    """Have the server refuse requests with a field."""

    def has_field(request: Request) -> bool:
        return bool(request.body.get(field))

    server.when(has_field, fails(status, message))
    server.when(lambda _: True, says("fine"))


@pytest.mark.usefixtures("each_client")
@pytest.mark.parametrize(
    ("field", "status", "message"),
    [
        ("temperature", 400, "Unsupported parameter: 'temperature' is not supported."),
        ("top_p", 400, "`temperature` and `top_p` cannot both be specified."),
        ("stream_options", 422, "body.stream_options: Extra inputs are not permitted"),
        ("stream", 400, "Stream is not supported by this model"),
    ],
)
def test_a_field_that_is_refused_is_left_out_from_then_on(
    server: ModelServer, field: str, status: int, message: str
) -> None:
    refuses(server, field, status, message)
    collected = Collector()

    first = complete(REQUEST, listener=collected)
    asked = len(server.requests)
    second = complete(REQUEST, listener=Collector())

    assert (first.text, second.text) == ("fine", "fine")
    assert (collected.heard, collected.ends) == ("fine", 1)
    assert asked in (2, 3)  # one that names two fields is tried without the first before
    assert len(server.requests) == asked + 1


@pytest.mark.usefixtures("each_client")
@pytest.mark.parametrize("message", ["no such model", "the upstream was reset"])
def test_any_other_refusal_is_final(server: ModelServer, message: str) -> None:
    server.script.add(fails(400, message))

    with pytest.raises(ModelCallFailed):
        complete(REQUEST, listener=Collector())

    assert len(server.requests) == 1


def test_what_did_not_help_is_not_left_out(server: ModelServer) -> None:
    server.script.add(fails(400, "temperature is one thing"), fails(400, "no"), says("fine"))
    with pytest.raises(ModelCallFailed, match="HTTP 400: no"):
        complete(REQUEST)

    complete(REQUEST)

    assert "temperature" in server.requests[-1].body


def test_reasoning_that_is_refused_is_left_out(server: ModelServer) -> None:
    def has_reasoning(request: Request) -> bool:
        return any("reasoning_content" in message for message in request.messages)

    server.when(has_reasoning, fails(400, "property 'reasoning_content' is unsupported"))
    said = {"reasoning_content": "Let me see."}
    server.when(lambda _: True, ServerReply(text="fine", said=said))
    first = complete(REQUEST)

    second = complete(ModelRequest("openai:home-made", [*HELLO, first.message, *HELLO]))

    assert second.text == "fine"
    assert [len(request.messages) for request in server.requests] == [1, 3, 3]


def test_a_run_says_what_its_model_does_not_take(engine: Engine, server: ModelServer) -> None:
    refuses(server, "temperature", 400, "Unsupported parameter: 'temperature'")
    graph = """
model: openai:m
temperature: 0.1
start: ask
nodes:
  ask: {type: llm, prompt: "Go.", next: done, state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""

    run = engine.finish(graph)

    warnings = [
        text
        for entry in engine.queries.follow(run.run_id, block=False)
        for text in getattr(entry.event, "warnings", ())
    ]
    assert run.output == "fine"
    assert "openai:m does not take temperature: it was left out" in warnings


@pytest.mark.usefixtures("each_client")
@pytest.mark.parametrize("kind", ["text/html", "text/plain", "text/event-stream"])
@pytest.mark.parametrize("body", ["<html>Please log in</html>", "Welcome", "  "])
def test_a_reply_that_is_no_stream_is_no_lost_connection(
    server: ModelServer, kind: str, body: str
) -> None:
    server.script.add(ServerReply(fault="raw", text=body, headers={"Content-Type": kind}))

    with pytest.raises(ModelCallFailed) as caught:
        complete(REQUEST, listener=Collector())

    assert "Connection reset" not in caught.value.message
    assert caught.value.kind == "other"


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "text/event-stream"])
def test_a_whole_reply_is_the_answer_where_a_stream_was_asked_for(
    server: ModelServer, kind: str
) -> None:
    body = '\n{"choices": [{"message": {"content": "fine"}}]}'
    server.script.add(ServerReply(fault="raw", text=body, headers={"Content-Type": kind}))
    collected = Collector()

    assert complete(REQUEST, listener=collected).text == collected.heard == "fine"


def test_a_stream_is_one_whatever_its_type(server: ModelServer) -> None:
    said = '{"choices": [{"delta": {"content": "fine"}, "finish_reason": "stop"}]}'
    headers = {"Content-Type": "text/plain"}
    body = f"\ufeff: hello\n\ndata: {said}\n\ndata: [DONE]\n\n"
    server.script.add(ServerReply(fault="raw", text=body, headers=headers))

    assert complete(REQUEST, listener=Collector()).text == "fine"
