"""The `fallback` of agent nodes: what it catches, what it is told, and what it does not catch."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.runs.events import RetryScheduled, StepCommitted
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.views.documents import error_document, failure_documents
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent

PARENT = """
start: a
initial_state: {what: it}
nodes:
  a:
    type: agent
    agent: helper
    prompt: "do {{what}}"
    timeout: 20
    fallback: f
    next: z
    state_updates: {said: "{{output}}"}
  f: {type: end, output: "f: {{said}}"}
  z: {type: end, output: "z: {{said}}"}
"""
ASKS = "start: i\nnodes: {i: {type: input, question: well?, next: z}, z: {type: end}}\n"
SAYS = "start: z\nnodes: {z: {type: end, output: '[1]'}}\n"
FAILS = "start: s\nnodes: {s: {type: script, script: s.sh}, z: {type: end}}\n"
SCHEMA = PARENT.replace("next: z", "next: z\n    output_schema: {type: object}")
THEN_FAILS = PARENT.replace('{type: end, output: "f: {{said}}"}', "{type: script, script: s.sh}")
SCRIPT = {"s.sh": "echo no such row >&2; exit 3"}


def run_until_it_ends(engine: Engine, helper: str, parent: str = PARENT) -> Run:
    engine.write("helper", helper, SCRIPT)
    run_id = engine.submit(parent, SCRIPT)
    engine.drive()
    engine.clock.move(20)
    engine.tick()
    engine.drive()
    assert_consistent(engine.redis, runs=1 + len(engine.queries.children(run_id)))
    return engine.run(run_id)


@pytest.mark.parametrize(
    ("helper", "parent", "code", "message"),
    [
        (SAYS, PARENT.replace("{{what}}", "{{gone}}"), "R001", "prompt: nothing in the state for"),
        (FAILS, PARENT, "R015", "agent 'helper' failed (run "),
        (SAYS.replace("start: z", "start: y"), PARENT, "R015", "agent 'helper' cannot start: "),
        (ASKS, PARENT, "R016", "agent 'helper' took longer than 20s (run "),
        (SAYS, SCHEMA, "R018", "agent 'helper': "),
    ],
)
def test_it_is_where_the_run_goes_whatever_the_node_failed_of(
    engine: Engine, helper: str, parent: str, code: str, message: str
) -> None:
    run = run_until_it_ends(engine, helper, parent)

    assert run.status is Status.SUCCEEDED
    assert str(run.output).startswith(f"f: Agent node failed: {message}")
    assert (run.failed_nodes, run.handled_failures) == (0, 1)
    assert failure_documents(engine.queries.failures(run)) == []
    (kept,) = engine.queries.failures(run)
    assert (kept.node, kept.code, kept.handled) == ("a", code, True)
    assert set(engine.state(run.run_id)) == {"initial_prompt", "what", "said"}


def test_it_catches_a_child_nested_too_deep(engine: Engine) -> None:
    engine.configure(max_agent_depth=0)

    run = run_until_it_ends(engine, SAYS)

    assert "1 deep; the limit is 0" in str(run.output)
    assert [kept.code for kept in engine.queries.failures(run)] == ["R017"]


def test_it_catches_a_child_that_a_person_cancels(engine: Engine) -> None:
    engine.write("helper", ASKS)
    run_id = engine.submit(PARENT)
    engine.drive()
    (child,) = engine.queries.children(run_id)

    engine.client.cancel(child.run_id, "not today")
    engine.drive()

    assert str(engine.run(run_id).output).endswith("not today")


def test_next_catches_nothing(engine: Engine) -> None:
    run = run_until_it_ends(engine, FAILS, PARENT.replace("    fallback: f\n", ""))

    assert run.failure is not None
    assert (run.failure.code, run.failure.node) == ("R015", "a")


def test_it_is_told_where_the_run_went_and_why(engine: Engine) -> None:
    run = run_until_it_ends(engine, FAILS)

    (departure,) = engine.events(run.run_id, StepCommitted)[0].departures
    assert (departure.id, departure.to) == ("a", ("f",))
    assert "R013: script 's' failed" in str(departure.failure)
    logged = [line["text"] for line in engine.queries.logs(run.run_id)]
    assert any(text.startswith("R015: agent 'helper' failed") for text in logged)


def test_a_later_failure_names_it_with_the_code_it_would_have_had(engine: Engine) -> None:
    run = run_until_it_ends(engine, FAILS, THEN_FAILS)

    document = error_document(run, engine.queries.failures(run))
    assert document is not None
    assert [(each["node"], each["code"]) for each in document["caused_by"]] == [("a", "R015")]


def test_it_comes_after_the_last_attempt(engine: Engine) -> None:
    parent = PARENT.replace("timeout: 20", "timeout: 20\n    max_attempts: 2\n    retry_delay_s: 1")
    engine.write("helper", ASKS)
    run_id = engine.submit(parent)
    for wait_s in (20, 1, 20):
        engine.drive()
        engine.clock.move(wait_s)
        engine.tick()
    engine.drive()

    assert len(engine.events(run_id, RetryScheduled)) == 1
    assert len(engine.queries.children(run_id)) == 2
    assert str(engine.run(run_id).output).startswith("f: Agent node failed: agent 'helper' took")


def test_it_does_not_catch_a_cancelled_run(engine: Engine) -> None:
    engine.write("helper", ASKS)
    run_id = engine.submit(PARENT)
    engine.drive()

    engine.client.cancel(run_id)
    engine.drive()

    assert engine.run(run_id).status is Status.CANCELLED


def test_it_does_not_catch_a_value_that_is_too_large(engine: Engine) -> None:
    engine.configure(value_limit_bytes=1_000)

    run = run_until_it_ends(engine, SAYS, PARENT.replace("do {{what}}", "{{what}}" + "x" * 1_000))

    assert run.failure is not None
    assert run.failure.code == "R021"


def test_an_item_of_a_map_goes_there_too(engine: Engine) -> None:
    graph = """
        initial_state: {items: [A, B]}
        start: m
        nodes:
          m: {type: map, over: "{{items}}", as: item, branch: a, collect_into: found, next: z}
          a: {type: agent, agent: helper, prompt: "{{item}}", inputs: {of: "{{item}}"},
              fallback: f, state_updates: {why: "{{output}}"}}
          f: {type: script, script: why.sh}
          z: {type: end, output: "{{found}}"}
        """
    helper = "start: s\nnodes: {s: {type: script, script: s.sh}, z: {type: end, output: ok}}"
    script = 'case "$GRAPH_STATE" in *of\\":\\"A*) echo \'{"_next": "z"}\';; *) exit 3;; esac'
    engine.write("helper", helper, {"s.sh": script})
    files = {"why.sh": """echo '{"output": "instead"}'"""}

    run = engine.finish(graph, files)

    assert run.output == '["ok","instead"]'
    assert (run.failed_nodes, run.handled_failures) == (0, 1)
    (kept,) = engine.queries.failures(run)
    assert (kept.node, kept.index, kept.code, kept.handled) == ("a", 1, "R015", True)
