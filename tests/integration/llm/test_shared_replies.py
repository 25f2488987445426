"""Equal calls that are under way at the same time: one is made, the others wait for its reply."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from sleipnir.scheduler.runs.events import ModelCalled, VisitDelayed
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.cached_replies import LEASE_S, CachedReplies
from sleipnir.worker.delivery.run_visit import run_visit
from tests.support.engine import Clock, Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, Reply, fails, says
from tests.support.model_server import Request as Received

ASK = """
model: openai:m
cache: true
start: ask
nodes:
  ask:
    type: llm
    prompt: "Say {{initial_prompt}}."
    max_attempts: 1
    state_updates: {said: "{{output}}"}
    next: z
  z: {type: end, output: "{{said}}"}
"""


def meanwhile(server: ModelServer, do: Callable[[], object], reply: Reply) -> None:
    """Let the test do something while the server answers its first request."""
    todo = [do]

    def answer(_: Received) -> Reply:
        if not todo:
            return says("the second")
        todo.pop()()
        return reply

    server.when(lambda _: True, answer)


def sources(engine: Engine, run_id: str) -> list[str | None]:
    return [event.source for event in engine.events(run_id, ModelCalled)]


def test_a_call_waits_for_an_equal_one_and_takes_its_reply(
    engine: Engine, server: ModelServer
) -> None:
    first, second, third = (engine.submit(ASK, prompt=text) for text in ("a", "a", "b"))

    meanwhile(server, lambda: (engine.work_once(), engine.work_once()), says("the first"))
    engine.drive()

    assert [engine.run(each).output for each in (first, second, third)] == [
        *("the first", "the first", "the second"),
    ]
    assert [sources(engine, each) for each in (first, second, third)] == [
        [None],
        ["shared"],
        [None],
    ]
    (waited,) = engine.events(second, VisitDelayed)
    assert waited.reason == "an equal call is under way"
    assert 0 < waited.delay_s <= LEASE_S
    assert engine.run(second).usage.prompt_tokens == 0
    assert len(server.requests) == 2
    assert_consistent(engine.redis, runs=3)


def test_a_failure_is_not_shared(engine: Engine, server: ModelServer) -> None:
    first, *others = (engine.submit(ASK, prompt="a") for _ in range(3))

    meanwhile(server, lambda: (engine.work_once(), engine.work_once()), fails(400, "no"))
    engine.drive()

    assert engine.run(first).output != "the second"
    assert [engine.run(each).output for each in others] == ["the second"] * 2
    assert sorted(str(sources(engine, each)) for each in others) == ["['shared']", "[None]"]
    assert len(server.requests) == 2


def test_no_call_waits_longer_than_a_minute_or_for_a_lost_worker(
    engine: Engine, clock: Clock
) -> None:
    replies, waits = CachedReplies(engine.redis, engine.store.clock), []
    assert replies.find("d", "r:1/a:1:1").verdict == "make"

    while (found := replies.find("d", "r:1/b:1:1")).verdict == "wait":
        waits.append(found.wait_s)
        clock.move(found.wait_s)
        replies.renew(["d"])

    assert sum(waits) == pytest.approx(60)
    assert found.verdict == "make"
    assert replies.find("d", "r:1/a:1:1").verdict == "make"  # delivered again
    assert replies.find("d", "r:1/c:1:1").verdict == "wait"
    engine.redis.delete("{limits}:made:d")  # as if it had expired
    assert replies.find("d", "r:1/c:1:1").verdict == "make"
    assert replies.find("d", "r:1/a:1:1").verdict == "wait"


@pytest.mark.parametrize(
    ("runs", "distinct", "at_once", "delay_s"),
    [(60, 6, 16, 0.3), pytest.param(500, 50, 128, 1.0, marks=pytest.mark.chaos)],
)
def test_of_equal_calls_under_way_one_is_made(
    engine: Engine, server: ModelServer, runs: int, distinct: int, at_once: int, delay_s: float
) -> None:
    server.when(lambda _: True, says("x", delay_s=delay_s))
    engine.write("asks", ASK)
    requests = [Request(prompt=f"{n % distinct}") for n in range(runs)]
    run_ids = engine.client.submit_many("asks", requests)

    def work(_: int) -> None:
        while not all(engine.run(each).is_final for each in run_ids[-distinct:]):
            while message := engine.pop():
                run_visit(engine.services, *message)

    with ThreadPoolExecutor(at_once) as threads:
        list(threads.map(work, range(at_once)))
    engine.drive()

    assert {engine.run(each).output for each in run_ids} == {"x"}
    assert len(server.requests) == distinct
