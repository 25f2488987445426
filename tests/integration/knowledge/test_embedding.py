"""Knowledge bases with an embedding model: what is asked, what is paid for, what may fail."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.scheduler.runs.model import Run
from sleipnir.worker.knowledge.embedding import batch_size
from tests.support.engine import Engine
from tests.support.knowledge import BY_MEANING, LETTERS, embedding, texts_asked
from tests.support.model_server import ModelServer, fails, says


@pytest.fixture
def server(server: ModelServer) -> ModelServer:
    return embedding(server)


def finish(engine: Engine, prompt: str, files: dict[str, str] = LETTERS) -> Run:
    """The run, resting as often as it has to."""
    run = engine.finish(BY_MEANING, files, prompt=prompt)
    for _ in range(10):
        if engine.run(run.run_id).is_final:
            break
        engine.clock.move(40)
        engine.tick()
        engine.drive()
    return engine.run(run.run_id)


def test_what_is_alike_is_found_and_each_text_is_paid_for_once(
    engine: Engine, server: ModelServer
) -> None:
    run = finish(engine, "dddd")

    assert run.status == "succeeded", run.failure
    assert engine.state(run.run_id)["sources"] == ["./docs/d.md"]
    assert sorted(texts_asked(server)) == sorted([*LETTERS.values(), "dddd"])
    assert all(len(request.body["input"]) <= 2 for request in server.requests)
    assert run.usage.prompt_tokens == 10 * (len(LETTERS) + 1)
    assert run.usage.cost_usd == pytest.approx(70 * 0.02e-6)

    server.requests.clear()
    run = finish(engine, "dddd", {**LETTERS, "docs/g.md": "g ggg"})

    assert texts_asked(server) == ["g ggg"]
    assert run.usage.prompt_tokens == 10


def test_a_batch_that_fails_is_tried_again_after_a_rest(
    engine: Engine, server: ModelServer
) -> None:
    server.script._rules.clear()
    is_bad = {"left": 1}

    def fails_once(request: Any) -> bool:
        if "c ccccccccc" in request.body["input"] and is_bad["left"]:
            is_bad["left"] -= 1
            return True
        return False

    server.when(fails_once, fails(503, "too much to do"))
    server.when(lambda _request: True, says(""))

    run = finish(engine, "cccc")

    assert run.status == "succeeded", run.failure
    asked = texts_asked(server)
    assert asked.count("c ccccccccc") == 2
    assert asked.count("a aaaaaaaaa") == asked.count("f fffffffff") == 1


@pytest.mark.parametrize(("status", "attempts"), [(400, 1), (502, 2)])
def test_a_model_that_goes_on_failing_fails_the_run(
    engine: Engine, server: ModelServer, status: int, attempts: int
) -> None:
    server.script._rules.clear()
    server.when(lambda _request: True, fails(status, "no such thing"))

    run = finish(engine, "dddd")

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R020", "look_up")
    assert "embedding with openai:text-embedding-3-small failed" in failure.message
    assert "item [" not in failure.message
    assert "no such thing" in failure.message
    assert texts_asked(server).count("a aaaaaaaaa") == attempts


@pytest.mark.parametrize(
    ("wanted", "input_tokens", "chunk_size", "size"),
    [(None, None, 1000, 64), (None, 8191, 1000, 8), (4, 8191, 1000, 4), (4, 512, 1000, 1)],
)
def test_a_batch_is_no_larger_than_what_the_model_takes(
    wanted: int | None, input_tokens: int | None, chunk_size: int, size: int
) -> None:
    assert batch_size(wanted, input_tokens, chunk_size) == size


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([{"index": 0, "embedding": [1.0]}], "gave 1 vectors for 2 texts"),
        (
            [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}],
            "different dimensions",
        ),
        (
            [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [float("nan")]}],
            "not finite",
        ),
        ([{"index": 0}, {"index": 1}], "failed"),
        ([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}], "failed"),
        (
            [{"index": place, "embedding": [1.0] * 70_000} for place in (0, 1)],
            "more than 65536 dimensions",
        ),
    ],
)
def test_vectors_that_cannot_be_used_fail_the_run(
    engine: Engine,
    server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    given: list[dict[str, Any]],
    words: str,
) -> None:
    reply = {"object": "list", "data": given, "usage": {"prompt_tokens": 1, "total_tokens": 1}}
    monkeypatch.setattr("tests.support.model_server._embeddings", lambda _request: reply)

    run = finish(engine, "dddd")

    assert words in engine.failure(run.run_id).message


def test_a_lost_build_asks_for_no_text_again(engine: Engine, server: ModelServer) -> None:
    engine.configure(kb_max_bytes=100)  # it breaks after all texts were embedded
    assert "(kb_max_bytes)" in engine.failure(finish(engine, "dddd").run_id).message
    assert len(texts_asked(server)) == len(LETTERS)
    engine.configure()

    run = finish(engine, "dddd")

    assert run.status == "succeeded"
    assert len(texts_asked(server)) == len(LETTERS) + 1
