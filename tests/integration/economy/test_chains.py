"""Chains of models whose calls wait for batches: a line that fails is a model that has failed."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.runs.events import ModelCalled
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.economy.groups import Groups
from tests.support.economy import ASKS, answer, assert_answered, carry, groups, submit
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, fails

CHAINED = ASKS.replace("openai:m", "pair")


@pytest.fixture
def chained(engine: Engine, server: ModelServer) -> Engine:
    """An engine with chains of models, of which `m` and `m2` fail."""
    place = {"api_base": server.base_url, "api_key": "sk-only-for-this-test"}
    engine.configure(
        models={
            "aliases": {
                "pair": ["openai:m", "openai:n"],
                "mixed": ["openai:m", "deepseek:n"],
                "faulty": ["openai:m", "openai:m2"],
                "keyless": ["groq:n", "openai:n"],
            },
            "providers": {"deepseek": place},
        }
    )
    server.script.when(lambda request: request.body["model"] != "n", fails(500, "a fault"))
    server.script.when(lambda _: True, answer)
    return engine


def models_of(server: ModelServer) -> list[list[str]]:
    """Return the models of each batch's lines."""
    lines = [batch.lines for batch in server.batches.batches.values()]
    return [[line["body"]["model"] for line in some] for some in lines]


def test_the_next_model_is_asked_in_a_batch_of_its_own(
    chained: Engine, server: ModelServer
) -> None:
    runs = submit(chained, 2, CHAINED)

    carry(chained)

    assert_answered(chained, runs)
    assert models_of(server) == [["m", "m"], ["n", "n"]]
    assert set(server.batches.bill.values()) == {1}
    assert server.requests == []
    (called,) = chained.events(runs[0], ModelCalled)
    assert (called.model, called.batch) == ("pair", list(server.batches.batches)[1])


def test_if_all_models_fail_another_attempt_asks_all_of_them(
    chained: Engine, server: ModelServer
) -> None:
    graph = CHAINED.replace("pair", "faulty").replace("max_tokens: 10", "max_attempts: 2")
    (run_id,) = submit(chained, 1, graph)

    carry(chained, turns=12)

    assert models_of(server) == [["m"], ["m2"], ["m"], ["m2"]]
    (failed,) = chained.client.queries.failures(chained.run(run_id))
    assert failed.message == "openai:m: HTTP 500: a fault; openai:m2: HTTP 500: a fault"
    assert groups(chained) == []
    spent = chained.run(run_id).spent.items()
    assert {model: (each.calls, each.failed) for (_, model), each in spent} == {
        "openai:m": (0, 2),
        "openai:m2": (0, 2),
    }


def test_the_deadline_is_one_for_the_whole_chain(chained: Engine, server: ModelServer) -> None:
    runs = submit(chained, 1, CHAINED, economy_s=1800.0)
    carry(chained, turns=3)
    assert models_of(server) == [["m"], ["n"]]
    server.batches.pending_polls = 1000

    chained.clock.move(1800.0 - 3 * 61)
    chained.tick()
    chained.drive()

    assert chained.run(runs[0]).status == Status.SUCCEEDED
    assert [request.body["model"] for request in server.requests] == ["n"]


def test_a_model_that_has_failed_is_not_asked_again_live(
    chained: Engine, server: ModelServer
) -> None:
    runs = submit(chained, 1, CHAINED.replace("pair", "mixed"))

    carry(chained)

    assert_answered(chained, runs)
    assert models_of(server) == [["m"]]
    assert [request.body["model"] for request in server.requests] == ["n"]


def test_a_model_without_a_key_is_left_out(chained: Engine, server: ModelServer) -> None:
    runs = submit(chained, 1, CHAINED.replace("pair", "keyless"))

    carry(chained)

    assert_answered(chained, runs)
    assert models_of(server) == [["n"]]


def test_a_worker_with_the_key_of_a_model_that_was_left_out_does_not_ask_it(
    chained: Engine, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = submit(chained, 1, CHAINED.replace("pair", "keyless"))
    monkeypatch.setenv("GROQ_API_KEY", "sk-only-for-this-test")
    monkeypatch.setenv("GROQ_API_BASE", server.base_url)
    chained.configure(models={"aliases": {"keyless": ["groq:n", "openai:n"]}})

    carry(chained)

    assert_answered(chained, runs)
    assert models_of(server) == [["n"]]
    assert Groups(chained.store).collections() == ["openai:n"]


@pytest.mark.parametrize("why", ["the provider of the next model has none", "its server has none"])
def test_with_economy_only_no_model_is_asked_live(
    chained: Engine, server: ModelServer, why: str
) -> None:
    server.batches.has_interface = why != "its server has none"
    graph = CHAINED.replace("pair", "mixed" if server.batches.has_interface else "openai:n")
    (run_id,) = submit(chained, 1, graph, economy_only=True)

    carry(chained)

    assert server.requests == []
    (failed,) = chained.client.queries.failures(chained.run(run_id))
    assert "--economy-only: " in failed.message
