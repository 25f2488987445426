"""A real model on a real server, both small enough for any machine; `make real-model` runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sleipnir.worker.llm.client import (
    OPENAI_COMPATIBLE,
    Endpoint,
    Listener,
    Message,
    ModelRequest,
    ReplySchema,
    complete,
)
from tests.support import real_model_server
from tests.support.engine import Engine

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(3600)]

LABELS = ["billing", "technical", "other"]
MESSAGES = [
    "I was charged twice in March.",
    "The app crashes when I open a report.",
    "Do you have an office in Oslo?",
    "Where is the invoice for my order?",
    "The login page says error 500.",
    "My card was declined, although there is money on it.",
    "Thank you for the quick help!",
    "Exported files are empty since the update.",
    "Can I pay by bank transfer?",
    "Who won the match yesterday?",
]
GRAPH = f"""
model: small:model
start: each
nodes:
  each: {{type: map, over: "{{{{messages}}}}", as: message, branch: sort, collect_into: found,
         max_concurrency: 1, next: done}}
  sort:
    type: llm
    instructions: "Sort messages of customers."
    prompt: "{{{{message}}}}"
    max_tokens: 100
    output_schema:
      type: object
      required: [label]
      properties: {{label: {{type: string, enum: [{", ".join(LABELS)}]}}}}
  done: {{type: end, value: "{{{{found}}}}"}}
"""
STORY: list[Message] = [{"role": "user", "content": "Tell me a long story of a ship."}]


class Collector(Listener):
    def __init__(self) -> None:
        self.pieces: list[str] = []

    def on_text(self, text: str) -> None:
        self.pieces.append(text)

    def end(self) -> None:
        """The reply is complete."""


@pytest.fixture(scope="module")
def api_base() -> Iterator[str]:
    """The address of the server, which is up for all tests of this file."""
    python = os.environ.get("REAL_MODEL_PYTHON", sys.executable)
    program = Path(real_model_server.__file__)
    with subprocess.Popen(
        [python, program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http"), "the server has not started"
        yield f"{address}/v1"
        process.stdin.close()


@pytest.fixture
def endpoint(api_base: str) -> Endpoint:
    return Endpoint(f"{OPENAI_COMPATIBLE}/model", api_base, "none")


def test_ten_messages_get_a_label_each_without_an_extractor(engine: Engine, api_base: str) -> None:
    engine.configure(models={"providers": {"small": {"api_base": api_base, "structured": True}}})

    run = engine.finish(GRAPH, state={"messages": MESSAGES})

    found = engine.state(run.run_id)["found"]
    assert [each["label"] in LABELS for each in found] == [True] * 10
    (spent,) = run.spent.values()
    assert spent.calls == 10
    assert run.usage.prompt_tokens > 10 * 10
    assert run.usage.completion_tokens > 10 * 5
    visits = engine.queries.transcripts(run.run_id)
    exchanges = [exchange for visit in visits for exchange in visit["exchanges"]]
    assert [exchange["native"] for exchange in exchanges] == [True] * 10
    assert not any("finish" in exchange for exchange in exchanges)


def test_a_reply_is_streamed_and_counted(endpoint: Endpoint) -> None:
    collected = Collector()

    reply = complete(ModelRequest("small:model", STORY, max_tokens=20), None, endpoint, collected)

    assert len(collected.pieces) > 5
    assert "".join(collected.pieces) == reply.text
    assert reply.usage.prompt_tokens > 5
    assert 5 < reply.usage.completion_tokens <= 20


@pytest.mark.parametrize("listener", [None, Collector()], ids=["whole", "streamed"])
def test_a_reply_that_is_cut_off_says_so(endpoint: Endpoint, listener: Listener | None) -> None:
    reply = complete(ModelRequest("small:model", STORY, max_tokens=3), None, endpoint, listener)

    assert (reply.finish, reply.usage.completion_tokens) == ("length", 3)


def test_a_schema_that_the_server_refuses_goes_into_the_prompt(endpoint: Endpoint) -> None:
    broken = {"type": "object", "properties": {"a": {"$ref": "#/$defs/nowhere"}}}
    field = {"name": "n", "schema": broken, "strict": False}
    schema = ReplySchema({"type": "json_schema", "json_schema": field}, " Reply with JSON.")
    asked = [{"role": "user", "content": "Hello! Reply with JSON."}]
    request = ModelRequest("small:model", asked, max_tokens=5, schema=schema)

    reply = complete(request, None, endpoint)

    assert (reply.native, reply.without) == (False, {"response_format"})
