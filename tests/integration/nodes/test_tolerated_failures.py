"""Failures that a run outlives: kept, counted and told, and what makes them end the run."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.scheduler.runs.events import RunEnded
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.views.documents import error_document, failure_documents
from sleipnir.scheduler.views.graph.progress import drawn_progress
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent

GRAPH = """
start: a
nodes:
  a: {type: script, script: fails.sh, next: b}
  b: {type: script, script: works.sh, next: z}
  z: {type: end, output: "done"}
"""
FILES = {
    "fails.sh": "echo cannot open rows.csv >&2; exit 3\n",
    "works.sh": "echo '{\"k\": 1}'\n",
    "raises.py": "import json\nraise ValueError('no rows')\n",
}
TWO_SIDES = """
start: s
nodes:
  s: {type: script, script: works.sh, next: [a, b]}
  a: {type: script, script: fails.sh, state_updates: {}, fallback: j, next: j}
  b: {type: script, script: fails.sh, state_updates: {}, next: j}
  j: {type: llm, prompt: "{{missing}}"}
  z: {type: end}
"""
MAP = """
start: m
initial_state: {items: %s}
nodes:
  m: {type: map, over: "{{items}}", as: item, branch: b, collect_into: found, on_error: skip,
      next: z}
  b: {type: script, script: b.sh}
  z: {type: end, output: "{{found}}"}
"""


def failures(engine: Engine, run: Run) -> list[dict[str, Any]]:
    return failure_documents(engine.queries.failures(run))


def caused_by(engine: Engine, run: Run) -> list[tuple[str, int]]:
    document = error_document(run, engine.queries.failures(run))
    assert document is not None
    return [(each["node"], each["step"]) for each in document["caused_by"]]


def test_a_run_keeps_the_failures_it_outlives(engine: Engine) -> None:
    run = engine.finish(GRAPH, FILES)

    assert (run.status, run.failed_nodes) == (Status.SUCCEEDED, 1)
    message = "exit code 3: cannot open rows.csv"
    expected = {"node": "a", "step": 1, "index": None, "code": "R013", "message": message}
    assert failures(engine, run) == [expected]
    (ended,) = engine.events(run.run_id, RunEnded)
    assert ended.failed_nodes == 1
    assert_consistent(engine.redis, runs=1)


def test_the_log_has_what_failed_first_and_what_the_run_failed_of(engine: Engine) -> None:
    run = engine.finish(GRAPH.replace("works.sh, next: z", "raises.py"), FILES)

    told = [e["text"] for e in engine.queries.logs(run.run_id) if e["stream"] == "failure"]
    assert told[0] == "R013: exit code 3: cannot open rows.csv"
    assert "ValueError: no rows" in told[1].splitlines()[0]


def test_a_run_without_failures_keeps_no_list(engine: Engine) -> None:
    run = engine.finish(GRAPH, {**FILES, "fails.sh": FILES["works.sh"]})

    assert failures(engine, run) == []
    assert not [key for key in engine.redis.scan_iter() if ":failures:" in key]
    assert "failed_nodes" not in engine.redis.hgetall(run_key("run", run.run_id))


def test_a_failure_that_a_fallback_takes_over_is_no_failed_node(engine: Engine) -> None:
    run = engine.finish(GRAPH.replace("next: b}", "fallback: b, next: z}"), FILES)

    assert (run.failed_nodes, run.handled_failures) == (0, 1)
    assert failures(engine, run) == []
    (kept,) = engine.queries.failures(run)
    assert (kept.node, kept.handled) == ("a", True)


def test_a_later_failure_says_what_failed_before(engine: Engine) -> None:
    run = engine.finish("settings: {validate_before_run: false}" + TWO_SIDES, FILES)

    assert run.failure is not None
    assert (run.status, run.failure.node) == (Status.FAILED, "j")
    assert caused_by(engine, run) == [("a", 2), ("b", 2)]
    assert run.failed_nodes == 1


CHAIN = """
start: m
initial_state: {items: [1, 2]}
nodes:
  m: {type: map, over: "{{items}}", as: item, branch: a, max_concurrency: 1, collect_into: found,
      next: z}
  a: {type: script, script: fails.sh, fallback: b}
  b: {type: script, script: fails.sh, next: c}
  c: {type: script, script: fails.sh}
  z: {type: end}
"""
FORK = """
  f: {type: set, next: [m, x]}
  x: {type: set, next: z}
"""


def test_a_failed_item_says_what_failed_before_it_in_its_chain(engine: Engine) -> None:
    run = engine.finish(CHAIN, FILES)

    assert run.failure is not None
    assert (run.failure.code, run.failed_nodes) == ("R011", 0)
    document = error_document(run, engine.queries.failures(run))
    assert document is not None
    found = [(e["node"], e["index"], e["code"], e["message"][:6]) for e in document["caused_by"]]
    assert found == [("a", 0, "R013", "exit c"), ("b", 0, "R013", "exit c")]
    parallel = engine.finish(CHAIN.replace("start: m", "start: f") + FORK, FILES)
    assert [node for node, _ in caused_by(engine, parallel)] == ["a", "b"]


@pytest.mark.parametrize("strict", ["graph", "command"])
def test_a_strict_run_ends_at_the_node_that_fails(engine: Engine, strict: str) -> None:
    settings = "settings: {tolerate_failures: false}\n" if strict == "graph" else ""

    run = engine.finish(settings + GRAPH, FILES, strict=strict == "command")

    assert run.failure is not None
    assert (run.failure.code, run.failure.node) == ("R013", "a")
    assert "cannot open rows.csv" in run.failure.message
    assert caused_by(engine, run) == []


def test_a_fallback_still_takes_over_in_a_strict_run(engine: Engine) -> None:
    run = engine.finish(GRAPH.replace("next: b}", "fallback: b, next: z}"), FILES, strict=True)

    assert run.status == Status.SUCCEEDED


def test_a_child_run_is_as_strict_as_its_parent(engine: Engine) -> None:
    parent = """
start: a
nodes:
  a: {type: agent, agent: ./inner, prompt: "-", next: z}
  z: {type: end, output: "done"}
"""
    inner = {f"inner/{name}": text for name, text in FILES.items()}

    run = engine.finish(parent, {"inner/graph.yaml": "name: inner" + GRAPH, **inner}, strict=True)

    assert run.failure is not None
    assert run.failure.code == "R015"
    assert "R013: script 'a' failed" in run.failure.message


def test_items_that_a_map_leaves_out_are_failures_of_it(engine: Engine) -> None:
    run = engine.finish(MAP % list(range(3)), {"b.sh": FILES["fails.sh"]}, strict=True)

    assert (run.status, run.failed_nodes) == (Status.SUCCEEDED, 3)
    assert [(each["node"], each["index"], each["code"]) for each in failures(engine, run)] == [
        ("m", index, "R011") for index in range(3)
    ]


def test_only_the_first_failures_of_many_are_kept(engine: Engine) -> None:
    run = engine.finish(MAP % list(range(104)), {"b.sh": "exit 1\n"})

    assert run.failed_nodes == 104
    assert [each["index"] for each in failures(engine, run)] == list(range(100))


def test_a_traceback_begins_with_what_was_raised_and_names_the_agents_file(engine: Engine) -> None:
    run = engine.finish(GRAPH.replace("fails.sh", "raises.py"), FILES)

    (failure,) = failures(engine, run)
    lines = failure["message"].splitlines()
    assert lines[0] == "exit code 1: ValueError: no rows"
    assert '  File "raises.py", line 2, in <module>' in lines
    error = engine.state(run.run_id)["error"]
    assert error.startswith("Script node failed: exit code 1: Traceback")
    assert error.endswith("ValueError: no rows")


def test_the_picture_of_a_run_shows_what_failed_and_went_on(engine: Engine) -> None:
    run = engine.finish(GRAPH, FILES)

    _, outline = engine.client.outline_of(run)
    boxes = drawn_progress(engine.client, run, outline, step=None).boxes
    assert {box.id: box.progress for box in boxes} == {"a": "tolerated", "b": "done", "z": "done"}


def test_what_is_done_again_has_not_failed(engine: Engine) -> None:
    graph = GRAPH.replace("works.sh, next: z", "fails.sh, next: z")
    run = engine.finish(graph, FILES)
    assert [each["node"] for each in failures(engine, run)] == ["a", "b"]

    engine.client.retry(run.run_id, from_step=2)
    again = engine.run(run.run_id)
    left = [each["node"] for each in failures(engine, again)]
    engine.drive()

    assert (left, again.failed_nodes) == (["a"], 1)
    assert engine.run(run.run_id).failed_nodes == 2
    assert_consistent(engine.redis, runs=1)


def test_the_failures_go_with_their_run(engine: Engine) -> None:
    run = engine.finish(GRAPH, FILES)

    engine.clock.move(engine.store.settings.retention_s + 60)
    engine.tick()

    (left,) = [key for key in engine.redis.scan_iter() if run.run_id in key]
    assert left == run_key("gone", run.run_id)
