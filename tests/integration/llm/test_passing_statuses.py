"""Calls that meet a server in trouble once, and succeed when they are made again."""

from __future__ import annotations

import json
from collections import Counter
from itertools import cycle, islice

import pytest

from tests.support.engine import Engine
from tests.support.model_server import Answer, ModelServer, Reply, Request, fails, says

GRAPH = """
model: openai:m
settings: {llm_attempts: 2}
start: each
nodes:
  each: {type: map, over: "{{troubles}}", as: trouble, branch: ask, max_concurrency: 50,
         collect_into: said, next: done}
  ask: {type: llm, prompt: "{{trouble}}"}
  done: {type: end, output: "{{said}}"}
"""
PASSING = [
    *((status, "so it is") for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
    *((status, "so it is") for status in range(520, 525)),
    (400, "The engine is currently Overloaded"),
    (501, "Temporarily unavailable"),
]
LASTING = [(status, "so it is") for status in (400, 401, 403, 404, 422, 451, 501)]


def fail_once(server: ModelServer) -> Counter[str]:
    """Answer each prompt, `[status, message, …]`, with that failure first; count requests."""
    asked = Counter[str]()

    def answer(request: Request) -> Reply:
        asked[request.prompt] += 1
        status, message, _ = json.loads(request.prompt)
        return fails(status, message) if asked[request.prompt] == 1 else says("right")

    answers: Answer = answer
    server.when(lambda _: True, answers)
    return asked


@pytest.mark.parametrize("count", [32, pytest.param(2_000, marks=pytest.mark.chaos)])
def test_each_call_that_fails_once_is_right_in_the_end(
    engine: Engine, server: ModelServer, count: int
) -> None:
    asked = fail_once(server)
    troubles = [[*each, n] for n, each in enumerate(islice(cycle(PASSING), count))]
    run_id = engine.submit(GRAPH, state={"troubles": troubles})

    while engine.run(run_id).status == "running" or engine.queued():
        engine.drive()
        engine.clock.move(1)
        engine.tick()

    assert json.loads(engine.run(run_id).output or "") == ["right"] * count
    assert set(asked.values()) == {2}


def test_what_does_not_pass_is_not_tried_again(engine: Engine, server: ModelServer) -> None:
    asked = fail_once(server)
    troubles = [[*each, n] for n, each in enumerate(LASTING)]

    graph = GRAPH.replace("next: done", "on_error: collect, next: done")
    run = engine.finish(graph, state={"troubles": troubles})

    said = json.loads(run.output or "")
    assert [each["error"][:8] for each in said] == [f"HTTP {status}" for status, _ in LASTING]
    assert set(asked.values()) == {1}
