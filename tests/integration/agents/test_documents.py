"""What the documents of a normal agent add to a user's message."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.graphs.errors import InvalidAgent
from sleipnir.scheduler.runs import submit
from sleipnir.scheduler.runs.conversation.memory import summary_of
from sleipnir.scheduler.runs.events import StepCommitted
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.conversation.transcript import Transcript
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Request, calls, says

CONFIG = """
model: openai:m
instructions: You know pets.
documents: [docs]
"""
DOCS = {"docs/cats.md": "Cats sleep all day.", "docs/dogs.md": "Dogs bark in the park."}
TEMPLATE = "Sources:\n__SOURCES__\nContext:\n__CONTEXT__\nQuestion: __INPUT__"
TOLD = (
    "Sources:\n- ./docs/dogs.md\nContext:\n[Source: ./docs/dogs.md]\nDogs bark in the park.\n"
    "Question: which dog barks? __CONTEXT__"
)


def said(server: ModelServer, request: int = -1) -> list[str]:
    """What the user says in a conversation."""
    messages = chats(server)[request].messages
    return [message["content"] for message in messages if message["role"] == "user"]


def chats(server: ModelServer) -> list[Any]:
    return [request for request in server.requests if not is_embedding(request)]


def is_embedding(request: Request) -> bool:
    return request.path.endswith("/embeddings")


def test_a_message_becomes_what_its_documents_say_of_it_once(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = "openai:text-embedding-3-small"
    engine.configure(
        rag_embedding_model=model,
        rag_chunk_size=200,
        rag_chunk_overlap=0,
        rag_top_k=1,
        rag_template=TEMPLATE,
    )
    server.when(is_embedding, says(""))
    server.script.add(calls(("user__ask", {"question": "Whose?", "options": ["a"]})), says("Rex."))
    broken = {"left": 1}
    keep = Transcript.keep_result

    def dies_once(self: Transcript, *given: Any, **named: Any) -> None:
        if broken["left"]:
            broken["left"] -= 1
            raise RedisError  # the worker is cut off
        keep(self, *given, **named)

    run_id = engine.submit_normal(CONFIG, DOCS, prompt="which dog barks? __CONTEXT__")
    monkeypatch.setattr(Transcript, "keep_result", dies_once)
    with pytest.raises(RedisError):
        engine.drive()
    engine.clock.move(60)
    engine.tick()
    engine.drive()
    (question,) = engine.inbox()
    engine.client.answer(question.run_id, "a")
    engine.drive()

    run = engine.run(run_id)
    assert run.status == "succeeded", engine.failure(run_id)
    assert run.output == "Rex."
    assert said(server, 0) == said(server, 1) == [TOLD]
    embedded = [
        text for each in filter(is_embedding, server.requests) for text in each.body["input"]
    ]
    assert sorted(embedded) == sorted([*DOCS.values(), "which dog barks? __CONTEXT__"])
    # Its own replies, the query's embedding and those of the build, each counted once.
    replies = sum(10 for _ in chats(server))
    assert run.usage.prompt_tokens == replies + 10 * len(embedded)


def test_by_words_alone_where_nothing_is_found_the_message_is_as_it_was(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(rag_embedding_model="none")
    server.script.add(says("Hm."), says("Rex."))

    documents = {**DOCS, "docs/empty.md": " "}

    first = engine.submit_normal(CONFIG, documents, prompt="zzz")
    engine.drive()
    second = engine.submit_normal(CONFIG, documents, prompt="who barks?")
    engine.drive()

    (nothing,), (found,) = said(server, 0), said(server, 1)
    assert nothing == "zzz"
    assert "[Source: ./docs/dogs.md]\nDogs bark in the park." in found
    assert "<sources>\n- ./docs/dogs.md\n</sources>" in found
    assert found.endswith("<question>\nwho barks?\n</question>")
    shown = [summary_of(engine.state(run))["sources"] for run in (first, second)]
    assert shown == [[], ["./docs/dogs.md"]]
    [built] = [event.warnings for event in engine.events(first, StepCommitted) if event.warnings]
    assert "./docs/empty.md" in built[0]


def test_documents_that_cannot_be_read_are_refused_before_anything_runs(engine: Engine) -> None:
    engine.configure(rag_embedding_model="none")

    with pytest.raises(InvalidAgent, match="E223 document 'docs': no file matches"):
        engine.submit_normal(CONFIG, prompt="who barks?")


def test_documents_without_text_fail_the_run(engine: Engine) -> None:
    engine.configure(rag_embedding_model="none")

    run_id = engine.submit_normal(CONFIG, {"docs/blank.md": " "}, prompt="who barks?")
    engine.drive()

    failure = engine.failure(run_id)
    assert failure.code == "R020"
    assert "agent 'talker': no document" in failure.message


def test_unless_somebody_says_how_to_build_them_it_goes_on_without(
    engine: Engine, server: ModelServer
) -> None:
    server.script.add(says("Rex."))
    engine.write_normal("talker", CONFIG, DOCS)
    prepared = engine.client.prepare("talker")

    assert [finding.code for finding in prepared.warnings] == ["W601"]
    engine.client.submit(prepared, submit.Request(prompt="who barks?"))
    engine.drive()
    assert said(server) == ["who barks?"]

    engine.configure(rag_embedding_model="none", rag_template="__INPUT__")
    with pytest.raises(InvalidAgent, match=r"E609 .*lacks __CONTEXT__"):
        engine.submit_normal(CONFIG, DOCS)
