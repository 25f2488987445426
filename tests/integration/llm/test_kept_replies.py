"""A reply that a worker has received is never asked for again, whoever dies before its commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.dying import LOST_S, survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import Answer, ModelServer, calls, says

AGENT = """
model: openai:m
auto_continue: true
max_auto_continues: 0
"""
NODE = """
model: openai:m
start: work
nodes:
  work: {type: llm, prompt: Go., %s next: done, state_updates: {said: "{{output}}"}}
  done: {type: end, output: "{{said}}"}
"""
SCHEMA = "output_schema: {type: object, required: [n], properties: {n: {type: integer}}},"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield server


@pytest.mark.parametrize(
    ("agent", "replies", "output"),
    [
        pytest.param(AGENT, (says("Done."),), "Done.", id="the answer of an agent"),
        pytest.param(
            AGENT,
            (calls(("todo__add", {"task": "boil"}), ("gone", {})), says("Enough.")),
            "Enough.",
            id="calls of the engine's own functions",
        ),
        pytest.param(NODE % "", (says("Done."),), "Done.", id="the answer of a node"),
        pytest.param(NODE % SCHEMA, (says('{"n": 4}'),), '{"n":4}', id="structured output"),
        pytest.param(
            NODE % SCHEMA, (says("Four."), says('{"n": 4}')), '{"n":4}', id="an extractor's reply"
        ),
    ],
)
def test_a_reply_outlives_the_worker_that_received_it(
    engine: Engine, server: ModelServer, agent: str, replies: tuple[Answer, ...], output: str
) -> None:
    server.script.add(*replies)
    submit = engine.submit if "nodes:" in agent else engine.submit_normal
    run_id = submit(agent)

    while not engine.run(run_id).is_final:
        assert not survives("before.advance:kill", engine.work_once)
        engine.clock.move(LOST_S)
        engine.tick()
        assert engine.work_once()

    run = engine.run(run_id)
    assert run.output == output
    assert len(server.requests) == len(replies)
    assert run.usage.prompt_tokens == 10 * len(replies)
    assert_consistent(engine.redis, runs=1)


def test_an_answer_that_is_too_large_to_keep_still_counts_once(
    engine: Engine, server: ModelServer
) -> None:
    engine.configure(conversation_limit_bytes=100)
    server.script.add(says("long " * 100))

    run_id = engine.submit_normal(AGENT)
    engine.drive()

    run = engine.run(run_id)
    assert (run.output, run.usage.prompt_tokens) == ("long " * 100, 10)
