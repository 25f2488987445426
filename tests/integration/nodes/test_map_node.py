"""The map node: its items, its window, its failures, and what it keeps of its branch."""

from __future__ import annotations

from typing import Any

import pytest

from sleipnir.scheduler.runs.events import ItemCommitted, StepCommitted
from sleipnir.scheduler.runs.model import Run
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent

GRAPH = """
start: m
nodes:
  m: {type: map, over: "{{items}}", as: item, branch: b, collect_into: found, next: z}
  b: {type: script, script: b.sh}
  z: {type: end, output: "{{found}}"}
"""
ECHO = """echo "{\\"output\\": $ITEM, \\"more\\": 1}" """
# What the script of the branch finds in its state; `item` is a number here.
ITEM = """ITEM=$(echo "$GRAPH_STATE" | sed 's/.*"item":\\([0-9]*\\).*/\\1/')\n"""
FAILS_ON_2 = """test $ITEM != 2 || { echo "no 2s" >&2; exit 1; }\n"""


def finish(engine: Engine, script: str, graph: str = GRAPH, **state: Any) -> Run:
    return engine.finish(graph, {"b.sh": ITEM + script}, state=state)


def with_map(**fields: object) -> str:
    extra = "".join(f", {name}: {value}" for name, value in fields.items())
    return GRAPH.replace(", next: z}", f"{extra}, next: z}}", 1)


@pytest.mark.parametrize("newest_first", [False, True])
def test_results_come_in_item_order_whoever_is_first(engine: Engine, newest_first: bool) -> None:
    run_id = engine.submit(GRAPH, {"b.sh": ITEM + ECHO}, state={"items": [5, 3, 9, 1]})

    engine.drive(newest_first=newest_first)

    assert engine.run(run_id).output == "[5,3,9,1]"


def test_nothing_else_of_an_invocation_reaches_the_state(engine: Engine) -> None:
    run = finish(engine, ECHO, items=[1, 2], more="mine", item="mine")

    assert engine.state(run.run_id) == {
        "initial_prompt": "",
        "items": [1, 2],
        "found": [1, 2],
        "more": "mine",
        "item": "mine",
    }


def test_an_empty_list_runs_nothing(engine: Engine) -> None:
    run = finish(engine, "exit 1", items=[], found="old")

    assert run.output == "[]"
    assert run.visits == {"m": 1, "z": 1}


def test_invocations_do_not_count_as_visits_of_the_branch(engine: Engine) -> None:
    run = finish(engine, ECHO, items=[1, 2])

    assert run.visits == {"m": 1, "z": 1}


@pytest.mark.parametrize(
    ("value", "kind"), [("[1, 2]", "string"), ({"a": 1}, "object"), (None, "null"), (3, "number")]
)
def test_what_is_no_list_cannot_be_mapped_over(engine: Engine, value: Any, kind: str) -> None:
    run = finish(engine, ECHO, items=value)

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R010", "m")
    assert failure.message.endswith(f"got {kind}")


def test_a_missing_list_fails_the_run(engine: Engine) -> None:
    run = finish(engine, ECHO)

    assert engine.failure(run.run_id).code == "R001"


def test_more_items_than_the_limit_are_refused(engine: Engine) -> None:
    engine.configure(map_items_limit=2)

    run = finish(engine, ECHO, items=[1, 2, 3])

    assert engine.failure(run.run_id).code == "R021"


def test_the_window_bounds_what_is_published(engine: Engine) -> None:
    run_id = engine.submit(
        with_map(max_concurrency=2), {"b.sh": ITEM + ECHO}, state={"items": [1, 2, 3]}
    )
    engine.work_once()
    seen = [engine.queued_visits()]

    while engine.work_once():
        seen.append(engine.queued_visits())

    assert seen == [
        ["1/m/0", "1/m/1"],
        ["1/m/1", "1/m/2"],
        ["1/m/2"],
        ["1/m"],
        ["2/z"],
        [],
    ]
    assert engine.run(run_id).output == "[1,2,3]"


def test_a_failure_fails_the_run_and_names_the_item(engine: Engine) -> None:
    run = finish(engine, FAILS_ON_2 + ECHO, items=[1, 2, 3])

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R011", "m")
    assert failure.message == "map 'm' item [1] failed: exit code 1: no 2s"


def test_the_lowest_failed_index_is_reported(engine: Engine) -> None:
    run_id = engine.submit(GRAPH, {"b.sh": "exit 1"}, state={"items": [1, 2, 3]})

    engine.drive(newest_first=True)

    assert "item [0] failed" in engine.failure(run_id).message


def test_after_a_failure_no_further_item_is_started(engine: Engine) -> None:
    run_id = engine.submit(
        with_map(max_concurrency=1), {"b.sh": "exit 1"}, state={"items": [1, 2, 3]}
    )

    engine.work_once()
    engine.work_once()

    assert engine.queued_visits() == ["1/m"]
    engine.drive()
    assert engine.failure(run_id).code == "R011"


def test_failures_can_be_collected_in_their_places(engine: Engine) -> None:
    run = finish(engine, FAILS_ON_2 + ECHO, with_map(on_error="collect"), items=[1, 2, 3])

    assert engine.state(run.run_id)["found"] == [
        1,
        {"error": "exit code 1: no 2s", "item": 2},
        3,
    ]


def test_failures_can_be_left_out(engine: Engine) -> None:
    run = finish(engine, FAILS_ON_2 + ECHO, with_map(on_error="skip"), items=[1, 2, 3])

    assert run.output == "[1,3]"


@pytest.mark.parametrize("on_error", ["collect", "skip"])
def test_tolerated_failures_are_counted_in_the_narration(engine: Engine, on_error: str) -> None:
    once = finish(engine, FAILS_ON_2 + ECHO, with_map(on_error=on_error), items=[1, 2])
    twice = finish(engine, FAILS_ON_2 + ECHO, with_map(on_error=on_error), items=[1, 2, 2])

    (of_one, *_), (of_two, *_) = (engine.events(run.run_id, StepCommitted) for run in (once, twice))
    assert of_one.warnings == ("map 'm': 1 item failed",)
    assert of_two.warnings == ("map 'm': 2 items failed",)


def item_states(engine: Engine, run_id: str) -> list[tuple[str, bool]]:
    """Of each item of the map its state, and whether it took any time."""
    items = engine.queries.map_items(engine.run(run_id), "m")
    return [(item.state, item.ms is not None) for item in items]


def test_items_are_told_one_by_one_while_they_run_and_after_the_end(engine: Engine) -> None:
    graph = with_map(on_error="skip", max_concurrency=1)
    files = {"b.sh": ITEM + FAILS_ON_2 + ECHO}
    run_id = engine.submit(graph, files, state={"items": [1, 2, 3]})

    for _ in range(3):  # the map, and two of its items
        engine.work_once()
    assert item_states(engine, run_id) == [("done", True), ("failed", True), ("open", False)]

    engine.drive()
    assert item_states(engine, run_id) == [("done", True), ("failed", True), ("done", True)]
    assert "no 2s" in str(engine.queries.map_items(engine.run(run_id), "m")[1].reason)
    with pytest.raises(KeyError):
        engine.queries.map_items(engine.run(run_id), "z")


def test_items_are_told_of_a_map_that_failed_its_run(engine: Engine) -> None:
    run = finish(engine, FAILS_ON_2 + ECHO, with_map(max_concurrency=1), items=[1, 2, 3])

    assert run.status == "failed"
    states = item_states(engine, run.run_id)
    assert states == [("done", True), ("failed", True), ("left_out", False)]


def test_a_failure_is_told_in_the_script_s_own_words(engine: Engine) -> None:
    script = """echo 'failed: @TOTAL@ rows, "@DONE@", %1' >&2; exit 1"""
    run = finish(engine, script, with_map(on_error="skip"), items=[1, 2, 3])

    told = engine.events(run.run_id, ItemCommitted)
    assert [event.done for event in told] == [1, 2, 3]
    for event in told:
        assert event.total == 3
        assert event.failure == """exit code 1: failed: @TOTAL@ rows, "@DONE@", %1"""


def test_an_invocation_that_writes_no_result_fails_the_run(engine: Engine) -> None:
    run = finish(engine, "echo '{}'", items=[1], output="stale")

    failure = engine.failure(run.run_id)
    assert failure.code == "R012"
    assert failure.message == "map 'm' item [0] failed: the branch wrote no 'output'"


def test_null_is_a_result(engine: Engine) -> None:
    run = finish(engine, """echo '{"output": null}'""", items=[1])

    assert engine.state(run.run_id)["found"] == [None]


def test_updates_of_the_branch_give_the_result(engine: Engine) -> None:
    graph = with_map(output_key="r").replace(
        "script: b.sh", 'script: b.sh, state_updates: {r: "<{{item}}>"}'
    )

    assert finish(engine, "echo '{}'", graph, items=[1, 2]).output == '["<1>","<2>"]'


def test_a_next_from_a_branch_is_ignored_with_a_warning(engine: Engine) -> None:
    run = finish(engine, """echo '{"_next": "gone", "output": 1}'""", items=[7])

    items = engine.events(run.run_id, ItemCommitted)
    assert run.output == "[1]"
    assert "_next is ignored" in items[0].warnings[0]


def test_a_reducer_takes_the_list_as_the_map_s_write(engine: Engine) -> None:
    run = finish(engine, ECHO, "reducers: {found: extend}\n" + GRAPH, items=[2], found=[1])

    assert run.output == "[1,2]"


def test_finished_invocations_survive_a_lost_worker(engine: Engine) -> None:
    run_id = engine.submit(GRAPH, {"b.sh": ITEM + ECHO}, state={"items": [1, 2]})
    engine.work_once()
    engine.work_once()
    engine.begin(run_id, "1/m/1")
    engine.pop()
    engine.clock.move(15)
    engine.tick()

    assert engine.queued_visits() == ["1/m/1"]
    engine.drive()
    assert engine.run(run_id).output == "[1,2]"


@pytest.mark.parametrize("branch", ["gone", "z", "m"])
def test_an_unusable_branch_fails_the_run_where_nobody_validated(
    engine: Engine, branch: str
) -> None:
    graph = "settings: {validate_before_run: false}\n" + GRAPH.replace(
        "branch: b,", f"branch: {branch},"
    )

    run = finish(engine, ECHO, graph, items=[1])

    assert engine.failure(run.run_id).code == "R003"


ASKS_OR_FAILS = """
start: look
nodes:
  look: {type: script, script: look.sh}
  ask: {type: input, question: "Sure?", next: z}
  z: {type: end, output: done}
"""
LOOK = """[[ $GRAPH_STATE == *'"fine"'* ]] && echo '{"_next": "ask"}' """
BY_CHILDREN = GRAPH.replace(
    "{type: script, script: b.sh}", "{type: agent, agent: child, prompt: '{{item}}'}"
)


def test_a_failure_does_not_wait_for_people_that_other_items_ask(engine: Engine) -> None:
    engine.write("child", ASKS_OR_FAILS, {"look.sh": LOOK})
    run_id = engine.submit(BY_CHILDREN, {}, state={"items": ["fine", "bad", "fine"]})

    engine.drive()

    assert engine.failure(run_id).message.startswith("map 'm' item [1] failed: ")
    assert [child.status for child in engine.queries.children(run_id)] == [
        "cancelled",
        "failed",
        "cancelled",
    ]
    assert engine.inbox() == []
    assert_consistent(engine.redis, runs=4)


def test_an_item_that_would_ask_after_a_failure_does_not(engine: Engine) -> None:
    engine.write("child", ASKS_OR_FAILS, {"look.sh": LOOK})
    run_id = engine.submit(BY_CHILDREN, {}, state={"items": ["fine", "bad"]})

    engine.drive(newest_first=True)

    assert "item [1] failed" in engine.failure(run_id).message
    assert [child.status for child in engine.queries.children(run_id)] == ["failed"]
    assert_consistent(engine.redis, runs=2)
