"""Loops that conditions close, and the visit numbers that they count by."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.scheduler.runs.history import decisions_of
from sleipnir.scheduler.runs.model import Run, Status
from tests.support.dying import LOST_S, survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent

# `max` closes the loop at the fourth visit of the gate.
CLOSED = """
start: gate
settings: {tolerate_failures: false}
nodes:
  gate: {type: set, values: {n: visit}, next: [{when: "true", to: work, max: 3}, {to: z}]}
  work: {type: script, script: work.sh, next: gate}
  z: {type: end, output: "{{n}}"}
"""
WORKS = {"work.sh": "echo '{}'"}
# Fails in its second visit until there is a file.
FAILS_ONCE = {"work.sh": """case "$GRAPH_STATE" in *'"n":2'*) test -e ok;; esac && echo '{}'"""}
ALL = [(1, "true"), (2, "true"), (3, "true"), (4, "else")]


def visits(engine: Engine, run: Run, node: str = "gate") -> list[tuple[int, str]]:
    """The visits of a node that decides, each with the route that it took."""
    found = decisions_of(engine.queries.checkpoints(run.run_id)).last
    return [(each.visit, each.label) for each in found if each.node == node]


def test_a_loop_within_a_loop_is_gone_through_in_each_round(engine: Engine) -> None:
    run = engine.finish("""
start: outer
initial_state: {seen: []}
nodes:
  outer: {type: set, values: {i: visit, j: 0}, next: inner}
  inner: {type: set, values: {j: j + 1, seen: "seen + [[i, j]]"}, next: gate}
  gate: {type: set, next: [{when: j < 2, to: inner}, {when: i < 3, to: outer}, {to: z}]}
  z: {type: end, output: "{{seen}}"}
""")

    assert run.output == "[[1,1],[1,2],[2,1],[2,2],[3,1],[3,2]]"
    assert [label for _, label in visits(engine, run)] == [
        *("j < 2", "i < 3") * 2,
        *("j < 2", "else"),
    ]
    assert_consistent(engine.redis, runs=1)


def test_a_loop_begins_branches_and_joins_them_in_each_round(engine: Engine) -> None:
    run = engine.finish("""
start: begin
initial_state: {sum: 0}
reducers: {sum: sum}
nodes:
  begin: {type: set, next: [left, right]}
  left: {type: set, values: {sum: visit}, next: join}
  right: {type: set, values: {sum: 10 * visit}, next: join}
  join: {type: set, next: [{when: sum < 60, to: begin}, {to: z}]}
  z: {type: end, output: "{{sum}}"}
""")

    assert run.output == "66"
    assert visits(engine, run, "join") == [(1, "sum < 60"), (2, "sum < 60"), (3, "else")]
    assert run.visits["join"] == 3
    assert_consistent(engine.redis, runs=1)


def test_a_loop_may_lead_through_a_person(engine: Engine) -> None:
    run = engine.finish(
        """
start: draft
nodes:
  draft: {type: set, values: {n: visit}, next: review}
  review:
    type: approval
    question: "{{n}}?"
    options: ["yes"]
    routes: {"yes": z}
    on_other: gate
  gate: {type: set, next: [{when: visit < 3, to: draft}, {to: given_up}]}
  given_up: {type: end, output: given up}
  z: {type: end, output: "{{n}}"}
""",
        answers={"review": ["no", "no"]},
    )
    assert run.status == Status.WAITING
    assert visits(engine, run) == [(1, "visit < 3"), (2, "visit < 3")]
    assert [each.text for each in engine.inbox()] == ["3?"]

    engine.client.answer(run.run_id, "no")
    engine.drive()

    assert engine.run(run.run_id).output == "given up"
    assert_consistent(engine.redis, runs=1)


def test_a_retry_within_a_loop_goes_on_counting(engine: Engine, tmp_path: Path) -> None:
    run = engine.finish(CLOSED, FAILS_ONCE, workdir=str(tmp_path))
    assert run.failure is not None
    assert (run.failure.code, run.failure.node) == ("R013", "work")

    (tmp_path / "ok").touch()
    engine.client.retry(run.run_id)
    engine.drive()

    run = engine.run(run.run_id)
    assert (run.output, run.visits["gate"]) == ("4", 4)
    assert visits(engine, run) == ALL
    assert_consistent(engine.redis, runs=1)


def test_a_decision_that_failed_is_made_anew_in_the_visit_of_the_same_number(
    engine: Engine,
) -> None:
    graph = """
start: gate
nodes:
  gate: {type: set, next: [{when: visit == 1, to: gate}, {when: limit > visit, to: z}]}
  z: {type: end}
"""
    run = engine.finish(graph)
    assert run.failure is not None
    assert "'limit' is not set" in run.failure.message

    engine.client.retry(run.run_id, state={"limit": 3})
    engine.drive()

    run = engine.run(run.run_id)
    assert run.status == Status.SUCCEEDED
    assert visits(engine, run) == [(1, "visit == 1"), (2, "limit > visit")]


def test_what_a_retry_supersedes_is_no_longer_among_the_decisions(engine: Engine) -> None:
    graph = """
start: gate
initial_state: {more: 3}
nodes:
  gate: {type: set, values: {n: visit}, next: [{when: n < more, to: gate}, {when: n < most, to: z}]}
  z: {type: end, output: "{{n}}"}
"""
    run = engine.finish(graph)
    assert visits(engine, run) == [(1, "n < more"), (2, "n < more")]

    engine.client.retry(run.run_id, 2, state={"more": 2, "most": 9})
    engine.drive()

    run = engine.run(run.run_id)
    assert visits(engine, run) == [(1, "n < more"), (2, "n < most")]
    assert (run.output, run.visits["gate"]) == ("2", 2)


@pytest.mark.parametrize("agent", [None, "current"])
def test_a_fork_within_a_loop_goes_on_counting(engine: Engine, agent: str | None) -> None:
    """As `dev` does with the agent as it is now, after a change of a node in the loop."""
    before = engine.finish(CLOSED, WORKS)
    engine.write("tested", CLOSED, {"work.sh": "echo '{\"changed\": true}'"})

    fork = engine.client.fork(before.run_id, 3, **({} if agent is None else {"agent": agent}))
    engine.drive()

    run = engine.run(fork.run_id)
    assert (run.output, run.visits["gate"]) == ("4", 4)
    assert visits(engine, run) == visits(engine, before) == ALL
    assert ("changed" in engine.state(run.run_id)) == (agent is not None)
    same = engine.client.diff(before.run_id, run.run_id)
    assert not any(node.fields["route"].differs for node in same.nodes)
    assert_consistent(engine.redis, runs=2)


# The gate, by itself and beside another node: then its result is staged first.
ALONE = """
start: gate
nodes:
  gate: {type: script, script: gate.sh, next: [{when: n == 1, to: a}, {to: b}]}
  a: {type: end, output: a}
  b: {type: end, output: b}
"""
BESIDE = """
start: begin
nodes:
  begin: {type: set, next: [gate, side]}
  side: {type: set, next: join}
  gate:
    type: script
    script: gate.sh
    state_updates: {}
    next: [{when: n == 1, to: join}, {to: [join, other]}]
  other: {type: set, next: done}
  join: {type: set, next: done}
  done: {type: end, output: "{{n}}"}
"""


@pytest.mark.parametrize(
    ("graph", "place", "output", "label"),
    [
        (ALONE, "before.advance", "b", "else"),
        (ALONE, "after.advance", "a", "n == 1"),
        (BESIDE, "before.stage", "2", "else"),
        (BESIDE, "after.stage", "1", "n == 1"),
    ],
)
def test_of_a_worker_that_was_killed_after_it_decided_one_route_is_left(
    engine: Engine, tmp_path: Path, graph: str, place: str, output: str, label: str
) -> None:
    """Only what is committed counts: the script says something else the second time."""
    counts = 'echo . >> count; echo "{\\"n\\": $(wc -l < count)}"'
    run_id = engine.submit(graph, {"gate.sh": counts}, workdir=str(tmp_path))
    while not engine.queued_visits()[0].endswith("gate"):
        engine.work_once()

    assert not survives(f"{place}:kill", engine.work_once)
    engine.clock.move(LOST_S)
    engine.tick()
    engine.drive()

    run = engine.run(run_id)
    assert visits(engine, run) == [(1, label)]
    assert (run.output, run.visits["gate"]) == (output, 1)
    assert ("other" in run.visits) == (graph is BESIDE and label == "else")
    assert_consistent(engine.redis, runs=1)
