"""Maps whose branch is a chain: an item goes through several nodes, with a state of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.runs.events import ItemWentOn
from sleipnir.scheduler.runs.history import node_times
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.runs.narration import render
from sleipnir.scheduler.views.graph.progress import graph_document
from sleipnir.scheduler.views.timeline import times_of_nodes
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent

GRAPH = """
start: m
nodes:
  m: {type: map, over: "{{items}}", as: item, branch: b, collect_into: found, next: z}
  b: {type: script, script: b.sh, next: c}
  c: {type: script, script: c.sh, state_updates: {output: "{{item}}:{{mine}}:{{shared}}"}}
  z: {type: end, output: "{{found}}"}
"""
# `item` is a number here, and `mine` what an earlier node of the item has written.
ITEM = """ITEM=$(echo "$GRAPH_STATE" | sed 's/.*"item":\\([0-9]*\\).*/\\1/')
MINE=$(echo "$GRAPH_STATE" | sed -n 's/.*"mine":"\\{0,1\\}\\([0-9]*\\).*/\\1/p')
"""
WRITES = ITEM + """echo "{\\"mine\\": $((ITEM * 10))}" """
NOTHING = "echo '{}'"


def finish(engine: Engine, files: dict[str, str], graph: str = GRAPH, **state: Any) -> Run:
    run = engine.finish(graph, files, state=state)
    assert_consistent(engine.redis, runs=1)
    return run


def with_map(graph: str = GRAPH, **fields: object) -> str:
    extra = "".join(f", {name}: {value}" for name, value in fields.items())
    return graph.replace(", next: z}", f"{extra}, next: z}}", 1)


def test_each_item_sees_what_it_has_written_itself_and_nothing_else(engine: Engine) -> None:
    run = finish(
        engine, {"b.sh": WRITES, "c.sh": NOTHING}, items=[1, 2, 3], shared="s", mine="theirs"
    )

    assert run.output == '["1:10:s","2:20:s","3:30:s"]'
    state = engine.state(run.run_id)
    assert (state["mine"], state.get("item"), state.get("output")) == ("theirs", None, None)
    assert run.visits == {"m": 1, "z": 1}


def test_each_node_of_an_item_is_a_message_of_its_own(engine: Engine) -> None:
    files = {"b.sh": WRITES, "c.sh": NOTHING}
    run_id = engine.submit(with_map(max_concurrency=1), files, state={"items": [1, 2]})
    engine.work_once()
    seen = [engine.queued_visits()]

    while engine.work_once():
        seen.append(engine.queued_visits())

    assert seen == [
        ["1/m/0"],
        ["1/m/0/c/1"],
        ["1/m/1"],
        ["1/m/1/c/1"],
        ["1/m"],
        ["2/z"],
        [],
    ]
    assert engine.run(run_id).status == "succeeded"


def test_only_what_an_item_wrote_is_stored_and_only_as_long_as_it_is_under_way(
    engine: Engine,
) -> None:
    files = {"b.sh": WRITES, "c.sh": NOTHING}
    state = {"items": [1], **{f"other_{number}": number for number in range(50)}}
    run_id = engine.submit(GRAPH, files, state=state)
    engine.work_once()
    engine.work_once()

    stored = engine.store.parking.read_map(run_id, "1/m")
    assert [name for name in stored if name.startswith("own:")] == ["own:0:mine"]

    engine.work_once()
    stored = engine.store.parking.read_map(run_id, "1/m")
    assert not [name for name in stored if name.startswith(("own:", "at:", "item:"))]


LOOP = """
start: m
nodes:
  m: {type: map, over: "{{items}}", as: item, branch: b, collect_into: found, next: z}
  b: {type: script, script: b.sh}
  z: {type: end, output: "{{found}}"}
"""
COUNTS = (
    ITEM
    + """
MINE=$((${MINE:-0} + 1))
test $MINE -ge $ITEM && echo "{\\"output\\": $MINE}" && exit
echo "{\\"mine\\": $MINE, \\"_next\\": \\"b\\"}"
"""
)


def test_a_script_may_send_its_item_round_again(engine: Engine) -> None:
    run = finish(engine, {"b.sh": COUNTS}, LOOP, items=[3, 1])

    assert run.output == "[3,1]"
    rows = {row.node: row.visits for row in node_times(engine.queries.history(run.run_id))}
    assert rows == {"m": 1, "b": 4, "z": 1}


def test_an_item_that_goes_round_too_often_fails_alone(engine: Engine) -> None:
    graph = "settings: {max_loop_iterations: 2}\n" + with_map(LOOP, on_error="collect")

    run = finish(engine, {"b.sh": COUNTS}, graph, items=[2, 3])

    reason = "Node 'b' visited 3 times (max_loop_iterations=2)"
    assert engine.state(run.run_id)["found"] == [2, {"error": reason, "item": 3}]
    (entry,) = engine.queries.logs(run.run_id)
    assert (entry["node"], entry["index"], entry["text"]) == ("b", 1, f"R011: {reason}")


def test_a_next_that_is_not_in_the_chain_fails_the_item(engine: Engine) -> None:
    files = {"b.sh": """echo '{"_next": "z"}'""", "c.sh": NOTHING}

    run = finish(engine, files, items=[1])

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.message) == (
        "R011",
        "map 'm' item [0] failed: at 'b': '_next' names 'z', which is not in the branch of 'm'",
    )


FAILS = "echo oops >&2; exit 3"
FAILS_IN_BRACES = f"{{ {FAILS}; }}"


def test_a_failure_of_a_chain_names_the_node(engine: Engine) -> None:
    run = finish(engine, {"b.sh": WRITES, "c.sh": FAILS}, items=[1])

    failure = engine.failure(run.run_id)
    assert failure.message == "map 'm' item [0] failed: at 'c': exit code 3: oops"
    (item,) = engine.queries.map_items(run, "m")
    assert (item.state, item.node, item.nodes) == ("failed", "c", ("b", "c"))


def test_an_item_goes_on_after_a_tolerated_failure_which_is_counted(engine: Engine) -> None:
    run = finish(engine, {"b.sh": FAILS, "c.sh": NOTHING}, items=[1, 2], shared="s")

    assert run.output == '["1::s","2::s"]'
    assert run.failed_nodes == 2
    failed = engine.queries.failures(run)
    assert [(each.node, each.index, each.code) for each in failed] == [
        ("b", 0, "R013"),
        ("b", 1, "R013"),
    ]
    (event, _) = engine.events(run.run_id, ItemWentOn)
    assert render(event) == ["▸   m[0] b failed, going to c: exit code 3: oops"]


def test_a_fallback_handles_a_failure(engine: Engine) -> None:
    graph = GRAPH.replace("b.sh, next: c", "b.sh, fallback: c")

    run = finish(engine, {"b.sh": FAILS, "c.sh": NOTHING}, graph, items=[1], shared="s")

    assert (run.output, run.failed_nodes) == ('["1::s"]', 0)
    (failure,) = engine.queries.failures(run)
    assert failure.handled


def test_strict_runs_tolerate_no_failure_inside_an_item(engine: Engine) -> None:
    graph = "settings: {tolerate_failures: false}\n" + with_map(on_error="skip")

    run = finish(engine, {"b.sh": FAILS, "c.sh": NOTHING}, graph, items=[1])

    assert run.output == "[]"


def test_the_result_is_what_any_node_wrote_last(engine: Engine) -> None:
    graph = GRAPH.replace(', state_updates: {output: "{{item}}:{{mine}}:{{shared}}"}', "")
    files = {"b.sh": """echo '{"output": null}'""", "c.sh": NOTHING}

    run = finish(engine, files, graph, items=[1], output="old")

    assert run.output == "[null]"


def test_an_item_that_wrote_no_result_fails(engine: Engine) -> None:
    graph = GRAPH.replace(', state_updates: {output: "{{item}}:{{mine}}:{{shared}}"}', "")

    run = finish(engine, {"b.sh": WRITES, "c.sh": NOTHING}, graph, items=[1], output="old")

    failure = engine.failure(run.run_id)
    assert failure.code == "R012"
    assert failure.message == "map 'm' item [0] failed: at 'c': the branch wrote no 'output'"


def test_an_item_may_write_no_more_than_a_value(engine: Engine) -> None:
    engine.configure(value_limit_bytes=1_000)
    half = """echo "{\\"%s\\": \\"$(head -c 600 /dev/zero | tr '\\0' x)\\"}" """

    run = finish(engine, {"b.sh": half % "p", "c.sh": half % "q"}, items=[1])

    assert "the item has written 12" in engine.failure(run.run_id).message


def test_what_each_node_took_has_a_row(engine: Engine) -> None:
    run = finish(engine, {"b.sh": FAILS, "c.sh": NOTHING}, items=[1, 2], shared="s")

    rows = {row.node: row for row in node_times(engine.queries.history(run.run_id))}
    assert {name: row.visits for name, row in rows.items()} == {"m": 1, "b": 2, "c": 2, "z": 1}
    assert (rows["b"].failed, rows["c"].failed) == (2, 0)
    items = engine.queries.map_items(run, "m")
    assert [(item.node, item.nodes) for item in items] == [(None, ("b", "c"))] * 2


def test_nodes_of_a_running_chain_have_rows(engine: Engine) -> None:
    graph = with_map(max_concurrency=2)
    run_id = engine.submit(graph, {"b.sh": FAILS, "c.sh": NOTHING}, state={"items": [1, 2, 3]})

    def rows() -> dict[str, tuple[int, int]]:
        times = times_of_nodes(engine.client, engine.run(run_id))
        return {row.node: (row.visits, row.failed) for row in times}

    engine.work_once()
    assert rows() == {"m": (1, 0), "b": (2, 0)}
    engine.work_once()
    engine.work_once()
    assert rows() == {"m": (1, 0), "b": (2, 2), "c": (2, 0)}
    run = engine.run(run_id)
    _, outline = engine.client.outline_of(run)
    drawn = graph_document(engine.client, run, outline)
    nodes = {each["id"]: (each["visits"], each["state"]) for each in drawn["nodes"]}
    assert nodes == {
        "m": (1, "waiting"),
        "b": (2, "running"),
        "c": (2, "running"),
        "z": (0, "untouched"),
    }
    engine.drive()
    assert rows() == {"m": (1, 0), "b": (3, 3), "c": (3, 0), "z": (1, 0)}


def test_a_killed_worker_repeats_the_node_it_had_under_the_same_key(engine: Engine) -> None:
    keys = 'echo $SLEIPNIR_NODE_ID $SLEIPNIR_IDEMPOTENCY_KEY >&2; echo "{}"'
    run_id = engine.submit(GRAPH, {"b.sh": keys, "c.sh": keys}, state={"items": [1], "shared": 1})
    engine.work_once()
    engine.work_once()
    engine.begin(run_id, "1/m/0/c/1")
    engine.pop()
    engine.clock.move(15)
    engine.tick()

    assert engine.queued_visits() == ["1/m/0/c/1"]
    engine.drive()
    logged = [entry["text"] for entry in engine.queries.logs(run_id)]
    assert logged == [f"b {run_id}:1/m/0", f"c {run_id}:1/m/0/c/1"]
    assert_consistent(engine.redis, runs=1)


def test_a_retry_goes_on_at_the_node_that_failed(engine: Engine, tmp_path: Path) -> None:
    fails_at_2 = f"""test $ITEM != 2 -o -e {tmp_path}/ok || {FAILS_IN_BRACES}\n"""
    files = {"b.sh": "echo b >&2\n" + WRITES, "c.sh": f"echo c >&2\n{ITEM}{fails_at_2}{NOTHING}"}
    graph = with_map(max_concurrency=2)
    run_id = engine.submit(graph, files, state={"items": [1, 2, 3, 4], "shared": "s"})
    engine.drive()
    assert engine.run(run_id).status == "failed"
    before = logged(engine, run_id)
    (tmp_path / "ok").touch()

    engine.client.retry(run_id)
    engine.drive()

    assert engine.run(run_id).output == '["1:10:s","2:20:s","3:30:s","4:40:s"]'
    # Of item 2 nothing counts: it was at its first node when item 1 failed.
    assert before == ["b 0", "b 1", "b 2", "c 0", "c 1"]
    assert logged(engine, run_id)[len(before) :] == ["b 2", "b 3", "c 1", "c 2", "c 3"]
    assert_consistent(engine.redis, runs=1)


def logged(engine: Engine, run_id: str) -> list[str]:
    """What the scripts logged, with the item: sorted within each try."""
    entries = [
        (entry.get("try", 1), f"{entry['node']} {entry['index']}")
        for entry in engine.queries.logs(run_id)
        if entry["text"].partition("\n")[0] == entry["node"]
    ]
    return [text for _, text in sorted(entries)]


def test_of_a_changed_chain_a_retry_begins_all_items_anew(engine: Engine) -> None:
    run_id = engine.submit(GRAPH, {"b.sh": WRITES, "c.sh": FAILS}, state={"items": [1]})
    engine.drive()
    graph = GRAPH.replace("next: c", "next: d").replace("  c: {", "  d: {")
    engine.write("tested", graph, {"b.sh": WRITES, "c.sh": NOTHING})

    engine.client.retry(run_id, agent="current")
    engine.drive()

    assert engine.run(run_id).output == '["1:10:"]'


def test_a_window_may_come_from_the_state(engine: Engine) -> None:
    graph = with_map(max_concurrency='"{{width}}"')
    files = {"b.sh": WRITES, "c.sh": NOTHING}
    engine.submit(graph, files, state={"items": [1, 2, 3], "width": " 2 "})

    engine.work_once()

    assert engine.queued_visits() == ["1/m/0", "1/m/1"]


@pytest.mark.parametrize(
    ("width", "shown"),
    [("0", '"0" (string)'), (0, "0 (number)"), (True, "true (boolean)"), (1.5, "1.5 (number)")],
)
def test_a_window_must_be_a_number_of_items(engine: Engine, width: Any, shown: str) -> None:
    graph = with_map(max_concurrency='"{{width}}"')

    run = finish(engine, {"b.sh": WRITES, "c.sh": NOTHING}, graph, items=[], width=width)

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.message) == (
        "R026",
        f"map 'm': max_concurrency must be a whole number of at least 1, got {shown}",
    )


def test_a_window_that_nothing_sets_fails_the_run(engine: Engine) -> None:
    graph = with_map(max_concurrency='"{{width}}"')

    run = finish(engine, {"b.sh": WRITES, "c.sh": NOTHING}, graph, items=[])

    assert engine.failure(run.run_id).code == "R001"


BY_CHILDREN = GRAPH.replace(
    "{type: script, script: c.sh, ", "{type: agent, agent: child, prompt: '{{mine}}', "
)
ASKS = """
start: ask
nodes:
  ask: {type: input, question: "Sure?", next: z}
  z: {type: end, output: done}
"""


def test_a_later_node_may_wait_for_a_person_below_it(engine: Engine) -> None:
    engine.write("child", ASKS)
    run_id = engine.submit(BY_CHILDREN, {"b.sh": WRITES}, state={"items": [1, 2], "shared": "s"})
    engine.drive()
    assert engine.run(run_id).status == "waiting"
    assert_consistent(engine.redis, runs=3)

    for question in engine.inbox():
        engine.store.parking.answer(question.run_id, question.visit, "yes")
    engine.drive()

    assert engine.run(run_id).output == '["1:10:s","2:20:s"]'
    assert_consistent(engine.redis, runs=3)


def test_what_waits_at_a_later_node_is_withdrawn_and_taken_up_by_a_retry(
    engine: Engine, tmp_path: Path
) -> None:
    engine.write("child", ASKS)
    fails_at_2 = f"test $ITEM != 2 -o -e {tmp_path}/ok || {FAILS_IN_BRACES}\n"
    graph = "settings: {tolerate_failures: false}\n" + BY_CHILDREN
    files = {"b.sh": ITEM + fails_at_2 + WRITES.removeprefix(ITEM)}
    run_id = engine.submit(graph, files, state={"items": [1, 2], "shared": "s"})
    engine.work_once()
    engine.work_once()  # item 0 goes on to its second node
    engine.drive(newest_first=True)
    assert engine.failure(run_id).message.startswith("map 'm' item [1] failed: at 'b'")
    assert_consistent(engine.redis, runs=len(engine.queries.children(run_id)) + 1)
    (tmp_path / "ok").touch()

    engine.client.retry(run_id)
    engine.drive()
    for question in engine.inbox():
        engine.store.parking.answer(question.run_id, question.visit, "yes")
    engine.drive()

    assert engine.run(run_id).output == '["1:10:s","2:20:s"]'
    assert_consistent(engine.redis, runs=len(engine.queries.children(run_id)) + 1)
