"""The embedding model of the extra `local`: what it finds, and that it asks nobody."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest

from sleipnir.worker.knowledge import local_model
from sleipnir.worker.knowledge.errors import KnowledgeFailed
from tests.support.engine import Engine
from tests.support.model_server import ModelServer

GRAPH = """
start: look_up
nodes:
  look_up:
    type: rag
    documents: [docs]
    embedding_model: local
    chunk_size: 200
    chunk_overlap: 0
    top_k: 1
    state_updates: {sources: "{{output.sources}}"}
    next: z
  z: {type: end, output: "{{sources}}"}
"""
DOCS = {
    "docs/pets.md": "Cats and dogs sleep in the living room.",
    "docs/money.md": "Invoices are paid within thirty days by bank transfer.",
    "docs/cars.md": "The engine of the truck needs oil every year.",
}


@pytest.fixture
def unread_model() -> Iterator[None]:
    """The model as a process finds it that has not read it yet."""
    local_model._model.cache_clear()
    yield
    local_model._model.cache_clear()


def test_it_finds_what_is_said_in_other_words_and_asks_nobody(
    engine: Engine, server: ModelServer
) -> None:
    for query, source in (
        ("vehicle maintenance", "./docs/cars.md"),
        ("when does the bill get settled?", "./docs/money.md"),
        ("kitten", "./docs/pets.md"),
    ):
        run = engine.finish(GRAPH, DOCS, prompt=query)

        assert run.status == "succeeded", engine.failure(run.run_id)
        assert engine.state(run.run_id)["sources"] == [source], query
        assert not run.usage
    assert server.requests == []
    assert engine.redis.keys("sleipnir:vector:*") == []


def test_vectors_are_of_length_one_and_each_text_has_its_own() -> None:
    texts = ["one two three", "", "entirely different", "half a pair: \ud800"]

    together = local_model.embed(texts)

    assert together.shape == (4, 256)
    assert np.linalg.norm(together, axis=1) == pytest.approx([1, 0, 1, 1])
    for text, vector in zip(texts, together, strict=True):
        assert np.array_equal(local_model.embed([text])[0], vector)


def test_words_of_a_query_count_by_how_rare_they_are_in_what_is_searched() -> None:
    rarity = {"truck": 2.0, "invoice": 1.0}
    truck, invoice = local_model.embed(["truck", "invoice"])

    (mixed,) = local_model.embed_query(["the truck invoice"], lambda word: rarity.get(word, 0.0))
    (alone,) = local_model.embed_query(["the truck invoice"], lambda word: word == "truck")

    assert mixed @ truck > mixed @ invoice
    assert alone == pytest.approx(truck, abs=1e-3)
    assert not local_model.embed_query(["", "half a pair: \ud800"], lambda _: 0.0).any()


def test_without_the_extra_it_says_what_to_install(
    unread_model: None, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        local_model, "find_spec", lambda name: None if name == "wordllama" else find_spec(name)
    )
    with pytest.raises(KnowledgeFailed, match="pip install"):
        local_model.embed(["text"])

    run = engine.finish(GRAPH, DOCS, prompt="kitten")

    assert engine.failure(run.run_id).message == (
        "agent 'tested', rag node 'look_up': the embedding model 'local' is not installed: "
        "pip install 'sleipnir[local]'"
    )
