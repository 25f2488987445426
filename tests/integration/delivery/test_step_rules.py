"""How super-steps merge, end and fail, with whole agents."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.runs.events import StepCommitted
from sleipnir.scheduler.runs.ids import VisitId, partition_of
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.store.cluster.groups import tag_for
from sleipnir.scheduler.store.keys import bundle_key, run_key
from sleipnir.worker.executors import EXECUTORS
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Wrote
from tests.support.engine import Engine

SIDE_BY_SIDE = """
start: s
nodes:
  s: {type: script, script: ok.sh, next: [a, b, c]}
  a: {type: script, script: a.sh, state_updates: {}, next: z}
  b: {type: script, script: b.sh, state_updates: {}, next: z}
  c: {type: script, script: c.sh, state_updates: {}, next: z}
  z: {type: end, output: "{{k}}"}
"""
OK = "echo '{}'"


def printing(text: str) -> str:
    return f"echo '{text}'"


def side_by_side(
    engine: Engine,
    a: str = OK,
    b: str = OK,
    c: str = OK,
    *,
    graph: str = SIDE_BY_SIDE,
    newest_first: bool = False,
    **state: Any,
) -> Run:
    """Run three scripts in one step."""
    files = {"ok.sh": OK, "a.sh": a, "b.sh": b, "c.sh": c}
    run_id = engine.submit(graph, files, state=state)
    engine.drive(newest_first=newest_first)
    return engine.run(run_id)


# ---- merging


def test_writes_of_different_keys_all_count(engine: Engine) -> None:
    run = side_by_side(engine, printing('{"x": 1}'), printing('{"y": 2}'), printing('{"k": 3}'))

    assert engine.state(run.run_id) == {"initial_prompt": "", "x": 1, "y": 2, "k": 3}
    assert run.step == 3


def test_two_writers_of_a_key_need_a_reducer(engine: Engine) -> None:
    run = side_by_side(engine, printing('{"k": 1}'), OK, printing('{"k": 1}'))

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R008", None)
    assert "nodes a, c wrote 'k'" in failure.message
    assert "declare a reducer" in failure.message
    assert "k" not in engine.state(run.run_id)


def test_a_value_equal_to_the_snapshot_is_no_write(engine: Engine) -> None:
    echo = printing('{"k": {"b": 1, "a": [1, "x\\u00e9"]}}')

    run = side_by_side(engine, echo, printing('{"k": 2}'), echo, k={"a": [1, "xé"], "b": 1})

    assert run.output == "2"


@pytest.mark.parametrize(("old", "new"), [(1, "1.0"), (True, "1"), ([], "{}"), ("1", "1")])
def test_a_value_of_another_type_is_a_write(engine: Engine, old: Any, new: str) -> None:
    write = printing(f'{{"k": {new}}}')

    run = side_by_side(engine, write, write, k=old)

    assert engine.failure(run.run_id).code == "R008"


@pytest.mark.parametrize("newest_first", [False, True])
def test_reducers_go_by_node_id_not_by_who_is_first(engine: Engine, newest_first: bool) -> None:
    run = side_by_side(
        engine,
        printing('{"k": "a"}'),
        printing('{"k": "b"}'),
        printing('{"k": "c"}'),
        graph="reducers: {k: append}\n" + SIDE_BY_SIDE,
        newest_first=newest_first,
        k=["seed"],
    )

    assert run.output == '["seed","a","b","c"]'


def test_a_reducer_works_with_one_writer_and_an_unchanged_value_too(engine: Engine) -> None:
    run = side_by_side(
        engine, printing('{"k": 2}'), graph="reducers: {k: sum}\n" + SIDE_BY_SIDE, k=2
    )

    assert run.output == "4"


def test_a_value_the_reducer_cannot_take_fails_the_run(engine: Engine) -> None:
    run = side_by_side(
        engine, printing('{"k": "x"}'), graph="reducers: {k: sum}\n" + SIDE_BY_SIDE, k=1
    )

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R009", "a")
    assert failure.message == "reducer 'sum' on key 'k': incoming must be number, got string"


def test_errors_of_scripts_that_fail_together_are_joined(engine: Engine) -> None:
    run = side_by_side(engine, "exit 1", OK, "exit 3", newest_first=True)

    assert engine.state(run.run_id)["error"] == (
        "Script node failed: exit code 1: \nScript node failed: exit code 3: "
    )


def test_the_same_error_again_still_meets_that_of_a_sibling(engine: Engine) -> None:
    run = side_by_side(engine, "exit 1", "exit 1", error="Script node failed: exit code 1: ")

    assert engine.state(run.run_id)["error"] == "\n".join(["Script node failed: exit code 1: "] * 2)


def test_an_error_that_a_script_writes_itself_is_a_key_like_others(engine: Engine) -> None:
    run = side_by_side(engine, "exit 1", printing('{"error": "mine"}'))

    assert engine.failure(run.run_id).code == "R008"


def test_nodes_see_the_snapshot_never_a_sibling(engine: Engine) -> None:
    reads = """
        case $GRAPH_STATE in *written*) seen=true;; *) seen=false;; esac
        echo "{\\"k\\": $seen}"
        """

    run = side_by_side(engine, printing('{"x": "written"}'), OK, reads)

    assert run.output == "false"


# ---- ends and routes


def ends(*, b: str = "z2") -> str:
    return f"""
start: s
nodes:
  s: {{type: script, script: ok.sh, next: [a, b, c]}}
  a: {{type: script, script: a.sh, state_updates: {{}}, next: z1}}
  b: {{type: script, script: b.sh, state_updates: {{}}, next: {b}}}
  c: {{type: script, script: c.sh, state_updates: {{}}, next: d}}
  d: {{type: script, script: c.sh, state_updates: {{}}, next: late}}
  z1: {{type: end, output: "{{{{k}}}}", state_updates: {{k: first, j: end}}}}
  z2: {{type: end}}
  late: {{type: end}}
"""


def test_two_ends_in_one_step_fail_the_run(engine: Engine) -> None:
    run = side_by_side(engine, graph=ends(), newest_first=True)

    failure = engine.failure(run.run_id)
    assert failure.code == "R007"
    assert "z1, z2" in failure.message


def test_an_end_cuts_its_siblings_off_but_keeps_their_writes(engine: Engine) -> None:
    run = side_by_side(engine, c=printing('{"x": 1}'), graph=ends(b="z1"))

    steps = engine.events(run.run_id, StepCommitted)
    assert (run.status, run.output) == ("succeeded", "first")
    assert engine.state(run.run_id) == {"initial_prompt": "", "k": "first", "j": "end", "x": 1}
    assert steps[-1].dropped == ("d -> late",)
    assert "late" not in run.visits


def test_an_end_s_writes_come_last_but_its_output_is_its_own_view(engine: Engine) -> None:
    run = side_by_side(
        engine,
        c=printing('{"k": "d"}'),
        graph="reducers: {k: append}\n" + ends(b="z1"),
        k=[],
    )

    assert engine.state(run.run_id)["k"] == ["d", "d", "first"]
    assert run.output == "first"


def test_an_end_s_output_is_lenient_and_sees_its_updates(engine: Engine) -> None:
    graph = """
        start: z
        nodes: {z: {type: end, state_updates: {k: "{{n}}"}, output: "{{k}} <{{gone}}> {{output}}"}}
        """

    run = engine.finish(graph, state={"n": [1], "output": "state"})

    assert run.output == "[1] <> state"
    assert engine.state(run.run_id)["k"] == [1]


def test_branches_join_in_a_node_that_runs_once(engine: Engine) -> None:
    run = side_by_side(engine)

    assert run.visits == {"s": 1, "a": 1, "b": 1, "c": 1, "z": 1}


def test_a_node_without_next_fails_before_it_does_anything(engine: Engine) -> None:
    graph = """
        settings: {validate_before_run: false}
        start: i
        nodes: {i: {type: input, question: "?"}, z: {type: end}}
        """

    run = engine.finish(graph)

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R002", "i")
    assert engine.inbox() == []


def test_a_write_to_a_key_of_an_unknown_reducer_fails(engine: Engine) -> None:
    graph = """
        settings: {validate_before_run: false}
        reducers: {k: appendd, other: append}
        start: s
        nodes: {s: {type: script, script: s.sh, next: z}, z: {type: end}}
        """

    run = engine.finish(graph, {"s.sh": "echo '{\"k\": 1}'"})

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.message, failure.node) == (
        "R009",
        "reducer 'appendd' on key 'k': there is no such reducer",
        "s",
    )


def test_a_loop_ends_at_the_visit_cap(engine: Engine) -> None:
    graph = """
        settings: {max_loop_iterations: 3}
        start: s
        nodes: {s: {type: script, script: s.sh}, z: {type: end}}
        """

    run = engine.finish(graph, {"s.sh": printing('{"_next": "s"}')})

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R004", "s")
    assert run.visits == {"s": 3}


# ---- failing


def test_a_failure_starts_no_sibling_that_waits(engine: Engine, tmp_path: Path) -> None:
    graph = SIDE_BY_SIDE.replace("c.sh, state_updates: {}, next: z", "c.sh, state_updates: {}")
    files = {"ok.sh": OK, "a.sh": "touch ran", "b.sh": "touch ran", "c.sh": "exit 3"}
    run_id = engine.submit(graph, files, workdir=str(tmp_path))

    engine.drive(newest_first=True)

    assert engine.failure(run_id).node == "c"
    assert not (tmp_path / "ran").exists()


def test_of_nodes_that_fail_together_all_are_in_the_log(engine: Engine, tmp_path: Path) -> None:
    graph = SIDE_BY_SIDE.replace("next: [a, b, c]", "next: [a, c]").replace(", next: z}", "}")
    meet = "touch $SLEIPNIR_NODE_ID; until [ -e a -a -e c ]; do sleep 0.01; done; exit 1"
    files = {"ok.sh": OK, "a.sh": meet, "b.sh": OK, "c.sh": meet}
    run_id = engine.submit(graph, files, workdir=str(tmp_path))
    engine.work_once()

    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda _: engine.work_once(), range(2)))

    assert engine.failure(run_id).node == "a"
    entries = sorted(engine.queries.logs(run_id), key=lambda entry: entry["node"])
    assert [(entry["node"], entry["stream"]) for entry in entries] == [
        ("a", "failure"),
        ("c", "failure"),
    ]
    assert entries[1]["text"].startswith("R013: script 'c' failed")


def test_a_failing_step_keeps_nothing_its_siblings_wrote(engine: Engine) -> None:
    graph = SIDE_BY_SIDE.replace("c.sh, state_updates: {}, next: z", "c.sh, state_updates: {}")

    run = side_by_side(engine, printing('{"x": 1}'), OK, "exit 3", graph=graph)

    assert engine.failure(run.run_id).code == "R013"
    assert engine.state(run.run_id) == {"initial_prompt": ""}
    assert [point.step for point in engine.queries.history(run.run_id)] == [0, 1]


def test_a_state_over_its_limit_fails_the_run(engine: Engine) -> None:
    engine.configure(state_limit_bytes=100)

    run = side_by_side(engine, printing('{"k": "%s"}' % ("x" * 100)))

    failure = engine.failure(run.run_id)
    assert failure.code == "R021"
    assert "state_limit_bytes" in failure.message


def test_a_text_that_doubles_with_every_update_ends_at_the_limit_of_a_value(
    engine: Engine,
) -> None:
    engine.configure(value_limit_bytes=100_000)
    doubling = "\n".join(f'      k{n + 1}: "{{{{k{n}}}}}{{{{k{n}}}}}"' for n in range(60))

    run = engine.finish(
        f"""
initial_state: {{k0: "0123456789"}}
start: z
nodes:
  z:
    type: end
    output: done
    state_updates:
{doubling}
"""
    )

    failure = engine.failure(run.run_id)
    assert failure.code == "R021"
    assert failure.message == (
        "node 'z': a template renders to more than 100000 characters (value_limit_bytes)"
    )


def test_one_value_under_very_many_keys_fails_the_run(engine: Engine) -> None:
    engine.configure(state_limit_bytes=200_000)
    copies = "\n".join(f'      k{n}: "{{{{k}}}}"' for n in range(100))

    run = engine.finish(
        f"""
initial_state: {{k: "{"x" * 50_000}"}}
start: z
nodes:
  z:
    type: end
    output: done
    state_updates:
{copies}
"""
    )

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R021", "z")
    assert "(state_limit_bytes)" in failure.message


def test_a_state_over_a_limit_lowered_since_may_end(engine: Engine) -> None:
    run_id = engine.submit("start: z\nnodes: {z: {type: end, output: over}}", prompt="x" * 100)
    engine.configure(state_limit_bytes=50)

    engine.drive()

    assert engine.run(run_id).output == "over"


def test_a_value_over_its_limit_names_key_and_node(engine: Engine) -> None:
    engine.configure(value_limit_bytes=100)

    run = side_by_side(engine, printing('{"k": "%s"}' % ("я" * 60)))

    failure = engine.failure(run.run_id)
    assert (failure.code, failure.node) == ("R021", "a")
    assert "wrote 122 bytes to 'k'" in failure.message


def test_a_run_ends_with_the_agent_it_began_with_on_any_machine(
    engine: Engine, tmp_path: Path
) -> None:
    asks = """
        start: q
        nodes:
          q: {type: input, question: "?", next: s}
          s: {type: script, script: s.sh, next: z}
          z: {type: end, output: "VERSION {{which}}"}
        """
    old, new = (
        engine.finish(
            asks.replace("VERSION", which), {"s.sh": printing(f'{{"which": "{which}"}}')}
        ).run_id
        for which in ("old", "new")
    )

    # One that has neither the agent's directory nor what was unpacked of it.
    elsewhere = Engine(engine.redis, engine.clock, tmp_path / "elsewhere")
    for run_id in (old, new):
        elsewhere.client.answer(run_id, "go on")
    elsewhere.drive()

    assert engine.run(old).output == "old old"
    assert engine.run(new).output == "new new"


def test_an_agent_whose_bundle_is_gone_fails_its_run(engine: Engine) -> None:
    run_id = engine.submit(SIDE_BY_SIDE, dict.fromkeys(["ok.sh", "a.sh", "b.sh", "c.sh"], OK))
    digest = engine.run(run_id).digest
    engine.redis.delete(f"{tag_for(engine.redis, digest)}{bundle_key(digest)}")

    engine.drive()

    failure = engine.failure(run_id)
    assert failure.code == "R023"
    assert "cannot be loaded" in failure.message


@pytest.mark.parametrize(
    "breakage",
    [
        ("run:{run}", "context", "no JSON"),
        ("waits:{run} {visit}", "question", "question done no JSON"),
    ],
)
def test_what_goes_wrong_around_a_visit_is_no_lost_worker(
    engine: Engine, breakage: tuple[str, str, str]
) -> None:
    key, field, value = breakage
    run_id = engine.submit(SIDE_BY_SIDE, dict.fromkeys(["ok.sh", "a.sh", "b.sh", "c.sh"], OK))
    visit = VisitId.of(1, engine.run(run_id).frontier[0])
    context = engine.redis.hget(run_key("run", run_id), "context")
    engine.redis.hset(run_key("visits", run_id), visit, "ready - 0 1 0 0 0 1 0 0 0 all")
    engine.redis.hset(f"{partition_of(run_id)}:{key.format(run=run_id, visit=visit)}", field, value)

    engine.drive()

    engine.redis.hset(run_key("run", run_id), "context", str(context))  # readable for us
    failure = engine.failure(run_id)
    assert failure.code == "R023"
    assert failure.message.startswith("internal error at visit '1/")
    assert "JSONDecodeError" in failure.message


def test_an_outcome_that_cannot_be_written_fails_its_run_and_keeps_the_log_once(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def say_and_write(visit: Visit[Any]) -> Wrote:
        visit.services.run_log.keep("stderr", "about to write")
        return Wrote({"k": object()}, ("z",))

    monkeypatch.setitem(EXECUTORS, "script", say_and_write)

    run = engine.finish(
        "start: s\nnodes: {s: {type: script, script: s.sh, next: z}, z: {type: end}}", {"s.sh": OK}
    )

    assert run.failure is not None
    assert (run.failure.code, run.failure.node) == ("R023", "s")
    assert "internal error in node 's'" in run.failure.message
    assert [entry["text"] for entry in engine.queries.logs(run.run_id)] == ["about to write"]


def test_a_node_whose_executor_cannot_be_imported_fails_its_run(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "sleipnir.worker.executors.approval", None)

    run = engine.finish(
        "start: a\nnodes:\n"
        "  a: {type: approval, question: Go?, options: [go, stop],\n"
        "    routes: {go: z, stop: z}, on_other: z}\n"
        "  z: {type: end}"
    )

    assert run.failure is not None
    assert run.failure.code == "R023"
    assert "sleipnir.worker.executors.approval" in run.failure.message
    assert "ModuleNotFoundError" in caplog.text
