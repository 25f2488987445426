"""Knowledge bases with a reranker: its order, what it costs, and what becomes of its failures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.graphs.document.loader import load_agent
from sleipnir.scheduler.runs.model import NO_USAGE, Run
from sleipnir.scheduler.runs.recording import written
from sleipnir.scheduler.store.knowledge.indexes import Indexes
from sleipnir.worker.knowledge import search
from sleipnir.worker.knowledge.agent_base import base_of
from sleipnir.worker.knowledge.by_hand import CommandModels
from sleipnir.worker.llm.client import Endpoint, ModelCallFailed, prepare, rerank
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, Request, Script, fails, says

GRAPH = """
start: look_up
nodes:
  look_up:
    type: rag
    documents: [docs]
    embedding_model: none
    reranker_model: openai:ranks
    query: "{{initial_prompt}}"
    top_k: 2
    state_updates: {sources: "{{output.sources}}"}
    next: z
  z: {type: end, output: "{{sources}}"}
"""
DOCS = {
    "docs/a.md": "Cats sleep. Cats eat. Cats.",
    "docs/b.md": "Cats and dogs.",
    "docs/c.md": "Birds sing.",
}
CATS = [DOCS["docs/a.md"], DOCS["docs/b.md"]]


@pytest.fixture
def server(server: ModelServer) -> ModelServer:
    server.when(lambda request: request.path.endswith("/rerank"), says(""))
    return server


def asked(server: ModelServer) -> list[Request]:
    return [request for request in server.requests if request.path.endswith("/rerank")]


def sources(engine: Engine, run: Run) -> Any:
    assert run.status == "succeeded", run.failure
    return engine.state(run.run_id)["sources"]


def test_the_model_orders_what_was_found_and_is_paid_for(
    engine: Engine, server: ModelServer
) -> None:
    run = engine.finish(GRAPH, DOCS, prompt="cats")

    assert sources(engine, run) == ["./docs/b.md", "./docs/a.md"]
    [request] = asked(server)
    expected = {"model": "ranks", "query": "cats", "documents": CATS, "top_n": 2}
    assert request.body == expected
    assert run.usage.prompt_tokens == 20
    # Where nothing is found there is nothing to order.
    assert sources(engine, engine.finish(GRAPH, DOCS, prompt="elephants")) == []
    assert len(asked(server)) == 1


def test_a_person_who_searches_gets_its_order_too(engine: Engine, server: ModelServer) -> None:
    engine.finish(GRAPH, DOCS, prompt="cats")
    engine.client.prepare("tested")  # notes what the run has built
    settings = engine.store.settings
    base = base_of(load_agent(engine.write("tested", GRAPH, DOCS)), None, settings)

    hits = base.search(Indexes(engine.redis, settings), CommandModels(engine.store), "cats", 2)

    assert [hit.chunk.source for hit in hits] == ["./docs/b.md", "./docs/a.md"]
    assert [hit.keyword_rank for hit in hits] == [2, 1]
    assert hits[0].score > hits[1].score


def test_it_gets_what_either_leg_found_and_its_order_is_cut(
    engine: Engine, server: ModelServer
) -> None:
    server.when(lambda request: request.path.endswith("/embeddings"), says(""))
    model = "embedding_model: openai:letters\n    chunk_size: 200\n    chunk_overlap: 0"
    graph = GRAPH.replace("embedding_model: none", model).replace("top_k: 2", "top_k: 1")

    # The letters lead to the birds, the words to the cats.
    run = engine.finish(graph, DOCS, prompt="cats brdsng brdsng irdsi")

    [request] = asked(server)
    assert request.body["documents"] == [DOCS["docs/c.md"], DOCS["docs/a.md"]]
    assert sources(engine, run) == ["./docs/a.md"]


def test_it_may_be_set_for_all_knowledge_bases(engine: Engine, server: ModelServer) -> None:
    engine.configure(rag_reranker_model="openai:everywhere")
    graph = GRAPH.replace("    reranker_model: openai:ranks\n", "")

    run = engine.finish(graph, DOCS, prompt="cats")

    assert sources(engine, run) == ["./docs/b.md", "./docs/a.md"]
    assert asked(server)[0].body["model"] == "everywhere"


def test_a_reranker_that_fails_fails_the_retrieval(engine: Engine, server: ModelServer) -> None:
    server.script = Script(otherwise=fails(400, "no such model"))

    failure = engine.failure(engine.finish(GRAPH, DOCS, prompt="cats").run_id)

    assert (failure.code, failure.node) == ("R020", "look_up")
    assert "rerank with openai:ranks failed: HTTP 400: no such model" in failure.message


@pytest.mark.parametrize(
    "results",
    [
        [],
        None,
        [{"index": 2, "relevance_score": 0.5}],
        [{"index": -1, "relevance_score": 0.5}],
        [{"index": 0, "relevance_score": 0.5}] * 2,
        [{"index": 0.5, "relevance_score": 0.5}],
        [{"index": "0", "relevance_score": 0.5}],
        [{"index": 0, "relevance_score": float("nan")}],
        [{"index": 0}],
        ["first"],
    ],
)
def test_an_order_that_is_none_fails_the_retrieval(
    engine: Engine, server: ModelServer, results: Any
) -> None:
    text = json.dumps({"results": results})
    server.script = Script(otherwise=says(text, fault="garbled"))

    message = engine.failure(engine.finish(GRAPH, DOCS, prompt="cats").run_id).message

    assert "rerank with openai:ranks failed: Empty or invalid response" in message


def test_an_order_is_that_of_the_scores(engine: Engine, server: ModelServer) -> None:
    results = [{"index": place, "relevance_score": place} for place in (0, 1)]
    text = json.dumps({"results": results})
    server.script = Script(otherwise=says(text, fault="garbled"))

    run = engine.finish(GRAPH, DOCS, prompt="cats")

    assert sources(engine, run) == ["./docs/b.md", "./docs/a.md"]


def test_limits_and_budgets_hold(engine: Engine, server: ModelServer) -> None:
    engine.configure(models={"providers": {"openai": {"requests_per_minute": 1}}})
    first = engine.finish(GRAPH, DOCS, prompt="cats")
    second = engine.finish(GRAPH, DOCS, prompt="dogs")

    assert (first.status, second.status, len(asked(server))) == ("succeeded", "running", 1)
    for _ in range(4):
        engine.clock.move(30)
        engine.tick()
        engine.drive()
    assert (engine.run(second.run_id).status, len(asked(server))) == ("succeeded", 2)

    engine.configure(models={"budgets": {"run": {"tokens": 10}}})
    failure = engine.failure(engine.finish(GRAPH, DOCS, prompt="cats").run_id)
    assert (failure.code, failure.node) == ("R025", "look_up")
    assert "budget 'run:" in failure.message
    assert len(asked(server)) == 2


def test_an_order_that_was_paid_for_is_not_asked_for_again(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = engine.submit(GRAPH, DOCS, prompt="cats")
    engine.work_once()  # it has no knowledge base yet, …
    engine.work_once()
    engine.work_once()  # … which is built now

    class WorkerDied(BaseException):
        """Ends the visit without a word."""

    def die(_hits: Any) -> None:
        raise WorkerDied

    with monkeypatch.context() as patched:
        patched.setattr(search, "output_of", die)
        with pytest.raises(WorkerDied):
            engine.drive()
    assert len(asked(server)) == 1
    engine.clock.move(1000)
    engine.tick()
    engine.drive()

    run = engine.run(run_id)
    assert sources(engine, run) == ["./docs/b.md", "./docs/a.md"]
    assert (len(asked(server)), run.usage.prompt_tokens) == (1, 20)


def test_a_recorded_order_is_replayed(engine: Engine, server: ModelServer) -> None:
    recorded = engine.finish(GRAPH, DOCS, prompt="cats", recorded=True)
    found = engine.client.recordings.recorded(recorded.run_id)
    assert [call.usage.prompt_tokens for call in found.calls] == [20]
    recording = engine.client.recordings.put(written(found.entries), "calls")
    server.requests.clear()

    run = engine.finish(GRAPH, DOCS, prompt="cats", replay=recording)

    assert sources(engine, run) == ["./docs/b.md", "./docs/a.md"]
    assert (server.requests, run.usage) == ([], NO_USAGE)
    missed = engine.finish(GRAPH, DOCS, prompt="dogs", replay=recording)
    assert "the recording has no order of these texts" in engine.failure(missed.run_id).message


def test_a_recording_has_no_secrets(
    engine: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = engine.finish(GRAPH, DOCS, prompt="cats sk-0123456789abcdefghij0123", recorded=True)

    text = written(engine.client.recordings.recorded(run.run_id).entries)
    assert "cats" in text
    assert "sk-0123456789" not in text


def test_providers_of_other_protocols_are_asked_by_way_of_litellm(server: ModelServer) -> None:
    endpoint = Endpoint("cohere/rerank-v3.5", server.base_url, "sk-0123456789ab")
    prepare([endpoint])

    reranked = rerank("cats", CATS, 2, 60, endpoint)

    assert [place for place, _ in reranked.order] == [1, 0]
    assert reranked.usage.prompt_tokens == 20
    assert reranked.usage.cost_usd == pytest.approx(0.002)
    server.script = Script(otherwise=fails(429, "slow down"))
    with pytest.raises(ModelCallFailed, match=r"HTTP 429: .*slow down") as failed:
        rerank("cats", CATS, 2, 60, endpoint)
    assert failed.value.status == 429
