"""What a model is told of replies that are not right, and what it is shown before it replies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sleipnir.scheduler.runs.events import ReplyChecked, RetryScheduled
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.narration import render
from sleipnir.scheduler.runs.recording import written
from tests.support.dying import LOST_S, survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, calls, says

GRAPH = """
model: openai:m
initial_state: {most: 5, order: A7}
start: ask
nodes:
  ask:
    type: llm
    prompt: "Answer."
    next: done
    fallback: failed
    state_updates: {said: "{{output}}"}
    %s
  done: {type: end, output: "{{said}}"}
  failed: {type: end, output: "failed: {{said}}"}
"""
SHORT = '{when: size(output) > most, say: "At most {{most}} letters, not {{output}}."}'
ORDER = '{when: "!output.contains(order)", say: "Name {{order}}."}'
TOOLS = '''
def look() -> str:
    """Looks."""
    return "A7"
'''


def finish(engine: Engine, fields: str, **request: Any) -> Run:
    return engine.finish(GRAPH % fields, {"tools.py": TOOLS}, **request)


def asked(server: ModelServer, request: int = -1) -> list[tuple[str, Any]]:
    return [(each["role"], each.get("content")) for each in server.requests[request].messages]


def test_a_model_is_told_what_is_not_right_until_it_is(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("far too long"), says("long A7"), says("A7."))

    run = finish(engine, f"check: [{SHORT}, {ORDER}]\n    max_checks: 2")

    assert run.output == "A7."
    assert asked(server) == [
        ("user", "Answer."),
        ("assistant", "far too long"),
        ("user", "At most 5 letters, not far too long.\nName A7."),
        ("assistant", "long A7"),
        ("user", "At most 5 letters, not long A7."),
    ]
    told = engine.events(run.run_id, ReplyChecked)
    assert [line for event in told for line in render(event)] == [
        "▸   check 1/2: At most 5 letters, not far too long.; Name A7.",
        "▸   check 2/2: At most 5 letters, not long A7.",
    ]


@pytest.mark.parametrize("bound", ["", "max_checks: 1", "max_checks: 9\n    max_iterations: 2"])
def test_what_stays_wrong_fails_the_node(engine: Engine, server: ModelServer, bound: str) -> None:
    server.script.add(says("so long"), says("longer A7"))

    run = finish(engine, f"max_attempts: 3\n    check: [{SHORT}, {ORDER}]\n    {bound}")

    reason = "check failed: At most 5 letters, not longer A7."
    assert run.output == f"failed: LLM node failed: {reason}"
    assert len(server.requests) == 2
    assert engine.events(run.run_id, RetryScheduled) == []


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (f"[{ORDER}, {{when: size(output) > 1, say: Short.}}]", "check failed: Name A7.; Short."),
        (
            "[{when: 'false', say: a}, {when: id == 1, say: b}]",
            "check 2: 'id' is not set",
        ),
        ("[{when: size(output), say: a}]", "check 1: number"),
    ],
)
def test_a_check_that_does_not_pass_at_once_fails_the_node(
    engine: Engine, server: ModelServer, check: str, reason: str
) -> None:
    server.script.add(says("no"))

    run = finish(engine, f"check: {check}\n    max_checks: 0")

    assert run.output == f"failed: LLM node failed: {reason}"


def test_the_output_is_that_of_the_last_reply(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("look", {}), text="I look."), says("It is B."), says("It is A7."))

    run = finish(engine, f"tools: [look]\n    check: [{ORDER}]")

    assert run.output == "It is A7."
    assert [role for role, _ in asked(server)] == ["user", "assistant", "tool", "assistant", "user"]


def test_checks_see_the_value_that_was_extracted(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("Seven."), says("7"), says("4"))

    run = finish(
        engine,
        "output_schema: {type: integer}\n"
        '    check: [{when: output > most || round > 2, say: "{{output}} is more than {{most}}."}]',
    )

    assert run.output == "4"
    assert asked(server)[-2:] == [("assistant", "Seven."), ("user", "7 is more than 5.")]


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
def test_a_worker_that_dies_between_rounds_loses_no_reply(
    engine: Engine, server: ModelServer, place: str, nth: int
) -> None:
    server.when(lambda request: len(request.messages) == 1, says("Seven."))
    server.when(lambda request: "extract data" in request.text, says("7"))
    server.when(lambda request: len(request.messages) == 3, says("6"))
    server.when(lambda request: len(request.messages) == 5, says("4"))
    check = "check: [{when: output > most, say: Less.}]\n    max_checks: 2"
    run_id = engine.submit(GRAPH % f"output_schema: {{type: integer}}\n    {check}")

    assert not survives(f"{place}.record_turn:kill:{nth}", engine.work_once)
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()

    run = engine.run(run_id)
    assert run.output == "4"
    # A reply that arrived and was not recorded is all that may be lost.
    assert len(server.requests) == 4 + (place == "before")
    assert run.usage.prompt_tokens == 4 * 10
    told = [event.number for event in engine.events(run_id, ReplyChecked)]
    assert sorted(set(told)) == [1, 2]
    assert_consistent(engine.redis, runs=1)


def test_a_recording_has_the_rounds(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("so long"), says("A7"))
    recorded = finish(engine, f"check: [{SHORT}]", recorded=True)
    text = written(engine.client.recordings.recorded(recorded.run_id).entries)

    replayed = finish(engine, f"check: [{SHORT}]", replay=engine.client.recordings.put(text, "f"))

    assert replayed.output == "A7"
    assert engine.client.recordings.misses(replayed.run_id) == []
    assert len(server.requests) == 2


def test_a_failed_check_is_the_failure_of_its_item(engine: Engine, server: ModelServer) -> None:
    server.when("Say A7", says("A7"))
    server.when("Say B", says("B"))
    graph = """
model: openai:m
initial_state: {list: [A7, B], order: A7}
start: each
nodes:
  each: {type: map, over: "{{list}}", as: x, branch: ask, collect_into: all, next: done,
         on_error: collect}
  ask: {type: llm, prompt: "Say {{x}}", check: [%s]}
  done: {type: end, output: "{{all}}"}
"""

    run = engine.finish(graph % ORDER)

    said, failed = json.loads(run.output or "")
    assert (said, failed["error"]) == ("A7", "check failed: Name A7.")


def test_examples_come_between_instructions_and_prompt(engine: Engine, server: ModelServer) -> None:
    server.script.add(says("7"), says("7"))
    examples = """examples:
      - {user: "Order {{order}}?", assistant: "{{most}}"}
      - {user: "Order B?", assistant: "9"}
    output_schema: {type: integer}"""

    finish(engine, f"instructions: Count.\n    {examples}")
    finish(engine, examples)

    shown = [("user", "Order A7?"), ("assistant", "5"), ("user", "Order B?"), ("assistant", "9")]
    (_, system), *first = asked(server, 0)
    *second, (_, prompt) = asked(server, 1)
    assert first == [*shown, ("user", "Answer.")]
    assert second == shown
    assert "JSON Schema" in system
    assert "JSON Schema" in prompt


def test_an_example_that_lacks_a_value_fails_the_node(engine: Engine, server: ModelServer) -> None:
    run = finish(engine, 'examples: [{user: "{{who}}?", assistant: "{{what}}"}]')

    assert run.output is not None
    assert run.output.startswith("failed: LLM node failed: ")
    assert "who" in run.output
    assert server.requests == []
