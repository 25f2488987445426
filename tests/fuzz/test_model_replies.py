"""What model servers answer: a reply the engine can use, or a failure of the call in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.conversation.structured_output import ExtractionFailed, extract
from sleipnir.worker.llm.client import (
    OPENAI_COMPATIBLE,
    Endpoint,
    ModelCallFailed,
    ModelRequest,
    complete,
)
from tests.support.fuzzing import EXAMPLES, assert_one_line, fuzz, mutated, texts, values
from tests.support.loopback import Loopback

LIMIT_S = 60.0
LARGEST = 2**53  # what Lua and readers of JSON hold exactly


class OddServer(Loopback):
    """Answers each request with the next of `bodies`, whatever that is, and else with `body`."""

    body = b""
    content_type = "application/json"
    status = 200

    def __init__(self) -> None:
        owner = self
        self.bodies: list[bytes] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                """Silent."""

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                body = owner.next_body()
                self.send_response(owner.status)
                self.send_header("Content-Type", owner.content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        super().__init__(ThreadingHTTPServer(("127.0.0.1", 0), Handler))

    def next_body(self) -> bytes:
        try:
            return self.bodies.pop()
        except IndexError:
            return self.body


@pytest.fixture(scope="module")
def odd_server() -> Iterator[OddServer]:
    with OddServer() as server:
        yield server


class Silent:
    """Hears a streamed reply."""

    def on_text(self, text: str) -> None:
        text.encode(errors="surrogatepass")

    def end(self) -> None:
        """Nothing to do."""


def a_reply(part: str) -> dict[str, Any]:
    """A sound answer; `part` is `message`, or `delta` of a streamed one."""
    calls = [
        {
            "id": f"call_{n}",
            "index": n,
            "type": "function",
            "function": {"name": "f", "arguments": "{}"},
        }
        for n in range(2)
    ]
    message = {"role": "assistant", "content": "hello", "tool_calls": calls}
    return {
        "id": "c1",
        "object": "chat.completion" if part == "message" else "chat.completion.chunk",
        "created": 0,
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", part: message}],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 3},
        },
    }


def odd_usage(reply: dict[str, Any]) -> SearchStrategy[Any]:
    """The reply with counts of tokens that nobody would believe."""
    counts = st.sampled_from([-5, 0, 2**53, 2**63, 2**70, 10**400, 1.5, "7", "x", None])
    details = st.fixed_dictionaries({"cached_tokens": counts})
    usage = st.fixed_dictionaries(
        {"prompt_tokens": counts, "completion_tokens": counts, "prompt_tokens_details": details}
    )
    return usage.map(lambda some: {**reply, "usage": some})


def bodies() -> SearchStrategy[bytes]:
    reply = a_reply("message")
    return st.integers(0, 5).flatmap(
        lambda die: (
            (mutated(reply) if die > 1 else odd_usage(reply)).map(_as_json)
            if die
            else st.binary(max_size=80)
        )
    )


def streams() -> SearchStrategy[bytes]:
    reply = a_reply("delta")
    piece = (mutated(reply) | mutated(reply) | odd_usage(reply)).map(
        lambda value: b"data: " + _as_json(value)
    )
    lines = st.lists(piece, min_size=1, max_size=3).map(b"\n\n".join)
    return st.tuples(st.just(b"") | st.binary(max_size=20), lines).map(
        lambda pair: b"\n\n".join([*pair, b"data: [DONE]\n\n"])
    )


def _as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def ask(server: OddServer, *, streamed: bool) -> None:
    """Ask a model once; what comes back has to be of use to everybody who gets it."""
    url = f"http://127.0.0.1:{server.port}/v1"
    endpoint = Endpoint(f"{OPENAI_COMPATIBLE}/m", api_base=url, api_key="k")
    request = ModelRequest("openai:m", [{"role": "user", "content": "hello"}])
    listener = Silent() if streamed else None
    try:
        reply = complete(request, LIMIT_S, endpoint, listener)
    except ModelCallFailed as error:
        assert_one_line(str(error))
        return
    assert isinstance(reply.text, str)
    for call in reply.calls:
        assert all(isinstance(part, str) for part in (call.call_id, call.name, call.arguments))
    assert len({call.call_id for call in reply.calls}) == len(reply.calls)
    assert json.loads(encode(reply.message)) == reply.message
    usage = reply.usage
    for count in (usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens):
        assert isinstance(count, int)
        assert 0 <= count <= LARGEST
    assert Usage.from_text(usage.to_text()) == usage


@pytest.mark.usefixtures("each_client")
@EXAMPLES
def test_a_body_is_a_reply_or_a_failed_call(examples: int, odd_server: OddServer) -> None:
    odd_server.content_type = "application/json"

    def check(example: tuple[bytes, int]) -> None:
        odd_server.body, odd_server.status = example
        ask(odd_server, streamed=False)

    fuzz(examples, st.tuples(bodies(), st.sampled_from([200, 200, 200, 400, 503])), check)


def test_a_number_that_json_cannot_hold_does_not_stay_in_a_message(odd_server: OddServer) -> None:
    reply = a_reply("message")
    reply["choices"][0]["message"]["tool_calls"][1]["index"] = float("inf")
    odd_server.content_type, odd_server.status = "application/json", 200
    odd_server.body = _as_json(reply)

    ask(odd_server, streamed=False)


@pytest.mark.usefixtures("each_client")
@EXAMPLES
def test_a_stream_is_a_reply_or_a_failed_call(examples: int, odd_server: OddServer) -> None:
    odd_server.content_type, odd_server.status = "text/event-stream", 200

    def check(body: bytes) -> None:
        odd_server.body = body
        ask(odd_server, streamed=True)

    fuzz(examples, streams(), check)


SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}, "required": ["n"]},
    {"type": "array", "items": {"enum": ["a", None, 1]}, "uniqueItems": True},
    {"multipleOf": 0.1},
    {"$ref": "#/$defs/a", "$defs": {"a": {"type": ["string", "null"], "maxLength": 3}}},
    {"$ref": "#"},
    {"$ref": "https://example.com/none"},
    {"type": "nonsense"},
]


@EXAMPLES
def test_a_text_fits_its_schema_or_is_refused(examples: int) -> None:
    def check(example: tuple[str, str, Any]) -> None:
        text, found, schema = example
        schema = schema if isinstance(schema, dict) else {}
        try:
            value = extract(schema, text, lambda _messages: found)
        except ExtractionFailed as error:
            assert_one_line(str(error))
            return
        encode(value).encode()

    documents = values().map(json.dumps) | texts()
    fenced = documents | documents.map(lambda text: f"<think>x</think>```json\n{text}\n```")
    keywords = st.sampled_from(["type", "enum", "items", "required", "allOf", "minimum", "$id"])
    schemas = st.sampled_from(SCHEMAS) | st.dictionaries(keywords, values(), max_size=2)
    fuzz(examples, st.tuples(fenced, fenced, schemas), check)
