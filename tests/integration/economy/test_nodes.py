"""What waits for batches: calls of loops, maps and child runs, within the times of node and run."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.doctor.consistency import ConsistencyCheck
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.views.economy import economy_of_batch
from sleipnir.scheduler.views.waits import waits_of
from tests.support.economy import ASKS, DAY_S, assert_answered, carry, groups, submit
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says

TOOLS = 'def look(): "Look."; return "a cat"\n'
LOOKS = ASKS.replace("max_tokens: 10", "tools: [look]")
CHECKED = ASKS.replace(
    "max_tokens: 10", "check: [{when: '!output.contains(\"!\")', say: Say it louder.}]"
)
MAPPED = """
    start: each
    model: openai:m
    initial_state: {numbers: [0, 1, 2]}
    nodes:
      each: {type: map, over: "{{numbers}}", as: n, branch: ask, collect_into: found, next: done}
      ask: {type: llm, prompt: "question {{n}}"}
      done: {type: end, output: "{{found}}"}
"""
PARENT = """
    start: child
    nodes:
      child: {type: agent, agent: asks, prompt: p, state_updates: {said: "{{output}}"}, next: done}
      done: {type: end, output: "{{said}}"}
"""


def lines_of(server: ModelServer) -> list[int]:
    """Return how many requests each batch had."""
    return [len(batch.lines) for batch in server.batches.batches.values()]


@pytest.mark.parametrize(("wish", "batches", "live"), [("true", [1, 1], 0), ("null", [], 2)])
def test_each_turn_of_a_loop_of_tools_is_a_batch_if_the_node_says_so(
    engine: Engine, server: ModelServer, wish: str, batches: list[int], live: int
) -> None:
    server.script.add(calls(("look", {})), says("It is a cat."))
    graph = LOOKS.replace("next: done", f"economy: {wish}\n        next: done")
    run_id = engine.submit(graph, {"tools.py": TOOLS}, economy_s=DAY_S)
    engine.drive()

    carry(engine)

    assert engine.run(run_id).output == "It is a cat."
    assert (lines_of(server), len(server.requests)) == (batches, live)


def test_a_complaint_of_a_check_is_a_round_of_its_own(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("a cat"), says("a cat!"))
    (run_id,) = submit(engine, 1, CHECKED)

    carry(engine)

    assert engine.run(run_id).output == "a cat!"
    assert lines_of(server) == [1, 1]


def test_items_of_a_map_wait_together(economical: Engine, server: ModelServer) -> None:
    run_id = economical.submit(MAPPED, economy_s=DAY_S, batch="b")
    economical.drive()
    told = waits_of(economical.client, [economical.run(run_id)])
    assert told[run_id].startswith("next provider batch openai, live from ")
    (collection,) = economy_of_batch(economical.client, "b")["collections"]
    assert collection["requests"] == 3
    assert list(ConsistencyCheck(economical.redis).violations()) == []

    carry(economical)

    assert economical.run(run_id).status == Status.SUCCEEDED
    assert lines_of(server) == [3]
    assert server.batches.bill == {f"question {n}": 1 for n in range(3)}


def test_child_runs_wait_as_their_parents_do(economical: Engine, server: ModelServer) -> None:
    economical.write("asks", ASKS)
    run_id = economical.submit(PARENT, economy_s=DAY_S)
    economical.drive()

    carry(economical)

    run = economical.run(run_id)
    assert (run.output, run.usage.economy_usd) == ("answer to question 0", pytest.approx(7.5e-6))
    assert (lines_of(server), server.requests) == ([1], [])


@pytest.mark.parametrize("never", ["node", "graph"])
def test_a_node_or_graph_may_never_wait(economical: Engine, never: str) -> None:
    graph = ASKS.replace("max_tokens: 10", "economy: false")
    if never == "graph":
        graph = ASKS.replace("model: openai:m", "model: openai:m\n    economy: false")

    (run_id,) = submit(economical, 1, graph)

    assert economical.run(run_id).status == Status.SUCCEEDED


def test_the_time_with_the_provider_does_not_count_for_the_node(
    economical: Engine, server: ModelServer
) -> None:
    runs = submit(economical, 1, ASKS.replace("max_tokens: 10", "timeout: 30"))

    carry(economical)

    assert_answered(economical, runs)


def test_the_time_of_the_run_goes_on_and_takes_its_request_out(
    economical: Engine, server: ModelServer
) -> None:
    server.batches.pending_polls = 1_000_000
    collected, sent = (submit(economical, 1, timeout_s=seconds)[0] for seconds in (30, 400))

    carry(economical, turns=1)
    assert economical.run(collected).status == Status.TIMED_OUT
    carry(economical, turns=12)

    assert economical.run(sent).status == Status.TIMED_OUT
    assert len(server.batches.cancelled) == 1
    assert groups(economical) == []
    assert not economical.redis.keys("*:request:*")


def test_a_request_without_room_in_a_budget_waits_outside_until_there_is(
    economical: Engine, server: ModelServer
) -> None:
    runs = submit(economical, 3, batch="b", batch_budget_usd=2.9e-5)

    carry(economical, turns=14)

    assert_answered(economical, runs)
    assert lines_of(server) == [2, 1]


def test_so_many_tokens_are_with_a_provider_at_a_time(engine: Engine, server: ModelServer) -> None:
    engine.configure(
        models={"providers": {"openai": {"batch": {"max_requests": 1, "enqueued_tokens": 5}}}}
    )
    server.script.when(lambda _: True, says("so"))
    server.batches.pending_polls = 1_000_000
    submit(engine, 3)

    carry(engine, turns=6)

    assert lines_of(server) == [1]
    assert [group.state for group in groups(engine)] == ["sent", "ready", "ready"]
