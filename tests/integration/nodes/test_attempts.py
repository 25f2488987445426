"""Other attempts of nodes that failed: when, how many, and what each of them has."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.scheduler.runs.events import ItemCommitted, RetryScheduled
from sleipnir.scheduler.runs.model import Run
from tests.support.engine import Engine

SCRIPT = """
start: s
nodes:
  s: {type: script, script: s.sh, max_attempts: 3, timeout: 20, next: z}
  z: {type: end, output: "{{k}}{{error}}"}
"""
PARENT = """
start: a
nodes:
  a:
    type: agent
    agent: helper
    prompt: go
    max_attempts: 2
    retry_delay_s: 8
    timeout: 60
    state_updates: {r: "{{output}}"}
    next: z
  z: {type: end, output: "{{r}}"}
"""
HELPER = """
start: s
nodes:
  s: {type: script, script: s.sh}
  z: {type: end, output: "{{k}}"}
"""
MAP = """
initial_state: {items: [a, b]}
start: m
nodes:
  m: {type: map, over: "{{items}}", as: it, branch: b, collect_into: l, next: z}
  b: {type: script, script: s.sh, max_attempts: 2, state_updates: {output: "{{k}}"}}
  z: {type: end, output: "{{l}}"}
"""
RAG = """
start: r
nodes:
  r:
    type: rag
    documents: [docs]
    embedding_model: none
    max_attempts: 2
    state_updates: {r: "{{output}}"}
    next: z
  z: {type: end}
"""
ASKS = "start: i\nnodes: {i: {type: input, question: well?, next: z}, z: {type: end}}\n"


def works_at(attempt: int, why: str = "not yet", route: str = "") -> str:
    """A script that fails until its so-manieth try in the directory of its run."""
    return f"""
        echo >> tries
        n=$(wc -l < tries)
        if test $n -lt {attempt}; then echo "{why}: $n" >&2; exit 7; fi
        echo '{{"k": "worked at '$n'"{route}}}'
        """


def transient(attempt: int) -> str:
    """The script of a helper that fails in a way that may pass, until that try."""
    return works_at(attempt, "curl: (56) Connection reset", ', "_next": "z"')


def submit(engine: Engine, graph: str, tmp_path: Path, script: str = "") -> str:
    """Submit an agent, its child runs in one directory with it, and drive it to its first rest."""
    (tmp_path / "work").mkdir()
    files = {"s.sh": script} if script else {}
    run_id = engine.submit(graph, files, workdir=str(tmp_path / "work"))
    engine.drive()
    return run_id


def rest(engine: Engine, run_id: str) -> list[RetryScheduled]:
    """Let the pauses pass until nothing rests any more; returns what was told of them."""
    while True:
        told = engine.events(run_id, RetryScheduled)
        engine.clock.move(61.0)
        engine.tick()
        engine.drive()
        if engine.events(run_id, RetryScheduled) == told:
            return told


def finish(
    engine: Engine, graph: str, tmp_path: Path, script: str
) -> tuple[Run, list[RetryScheduled]]:
    run_id = submit(engine, graph, tmp_path, script)
    retries = rest(engine, run_id)
    return engine.run(run_id), retries


def test_a_script_that_fails_is_tried_again_after_growing_pauses(
    engine: Engine, tmp_path: Path
) -> None:
    run, retries = finish(engine, SCRIPT, tmp_path, works_at(3))

    assert run.output == "worked at 3"
    assert [(retry.attempt, retry.of) for retry in retries] == [(2, 3), (3, 3)]
    assert retries[0].reason.startswith("exit code 7: not yet: 1")
    assert 0.75 <= retries[0].delay_s <= 1.0
    assert 1.5 <= retries[1].delay_s <= 2.0
    assert engine.queries.history(run.run_id)[-1].step == 2


def test_it_holds_no_worker_and_no_place_meanwhile(engine: Engine, tmp_path: Path) -> None:
    run_id = submit(engine, SCRIPT, tmp_path, works_at(2))

    assert engine.run(run_id).status == "running"
    engine.tick()
    assert not engine.work_once()
    engine.clock.move(1.0)
    engine.tick()
    engine.drive()
    assert engine.run(run_id).output == "worked at 2"


def test_after_the_last_attempt_it_fails_as_any_script_does(engine: Engine, tmp_path: Path) -> None:
    run, retries = finish(engine, SCRIPT, tmp_path, works_at(4))

    assert len(retries) == 2
    assert run.output == "Script node failed: exit code 7: not yet: 3"
    assert run.status == "succeeded"


@pytest.mark.parametrize("fields", ["", "max_attempts: 1,"])
def test_one_attempt_is_the_default(engine: Engine, tmp_path: Path, fields: str) -> None:
    run, retries = finish(engine, SCRIPT.replace("max_attempts: 3,", fields), tmp_path, works_at(2))

    assert retries == []
    assert str(run.output).startswith("Script node failed")


def test_an_agent_node_tries_again_with_a_new_child(engine: Engine, tmp_path: Path) -> None:
    engine.write("helper", HELPER, {"s.sh": transient(2)})
    run_id = submit(engine, PARENT, tmp_path)

    (retry,) = rest(engine, run_id)

    assert engine.run(run_id).output == "worked at 2"
    assert 6.0 <= retry.delay_s <= 8.0
    assert "R013: " in retry.reason
    children = engine.queries.children(run_id)
    assert sorted(child.status for child in children) == ["failed", "succeeded"]


def test_a_child_that_takes_too_long_is_cancelled_and_another_one_started(
    engine: Engine, tmp_path: Path
) -> None:
    engine.write("helper", ASKS)
    run_id = submit(engine, PARENT, tmp_path)

    engine.clock.move(60.0)
    engine.tick()
    engine.drive()
    engine.clock.move(8.0)
    engine.tick()
    engine.drive()

    first, second = sorted(engine.queries.children(run_id), key=lambda run: run.created_at)
    assert (first.status, second.status) == ("cancelled", "waiting")
    engine.client.answer(run_id, "x")
    engine.drive()
    assert engine.run(run_id).status == "succeeded"


def test_the_last_child_that_fails_fails_the_run(engine: Engine, tmp_path: Path) -> None:
    engine.write("helper", HELPER, {"s.sh": transient(9)})
    run_id = submit(engine, PARENT, tmp_path)

    rest(engine, run_id)

    failure = engine.failure(run_id)
    assert (failure.code, failure.node) == ("R015", "a")
    assert len(engine.queries.children(run_id)) == 2


def test_a_child_that_failed_for_good_is_not_tried_again(engine: Engine, tmp_path: Path) -> None:
    """Only what the child itself failed of counts, not a word in the name of an agent."""
    engine.write("429", HELPER, {"s.sh": works_at(2)})
    run_id = submit(engine, PARENT.replace("helper", '"429"'), tmp_path)

    assert engine.failure(run_id).code == "R015"
    assert engine.events(run_id, RetryScheduled) == []


def test_a_child_that_somebody_cancels_is_not_tried_again(engine: Engine, tmp_path: Path) -> None:
    engine.write("helper", ASKS)
    run_id = submit(engine, PARENT, tmp_path)
    (child,) = engine.queries.children(run_id)

    engine.client.cancel(child.run_id, "it timed out for me")
    engine.drive()

    assert engine.failure(run_id).code == "R015"


def test_a_child_past_its_own_deadline_is_tried_again(engine: Engine, tmp_path: Path) -> None:
    engine.write("helper", "settings: {timeout: 30}\n" + ASKS)
    run_id = submit(engine, PARENT, tmp_path)

    engine.clock.move(30.0)
    engine.tick()
    engine.drive()

    assert [retry.attempt for retry in engine.events(run_id, RetryScheduled)] == [2]


def test_what_no_attempt_would_change_is_not_tried_again(engine: Engine, tmp_path: Path) -> None:
    engine.write("helper", ASKS)

    run_id = submit(engine, PARENT.replace("prompt: go", 'prompt: "{{gone}}"'), tmp_path)

    assert engine.failure(run_id).code == "R001"
    assert engine.events(run_id, RetryScheduled) == []


def test_invocations_of_a_map_count_their_attempts_each_for_itself(
    engine: Engine, tmp_path: Path
) -> None:
    script = """
        item=$(python3 -c 'import json, os; print(json.loads(os.environ["GRAPH_STATE"])["it"])')
        if mkdir "seen-$item" 2> /dev/null; then exit 1; fi
        echo '{"k": "'$item'"}'
        """

    run, retries = finish(engine, MAP, tmp_path, script)

    assert run.output == '["a","b"]'
    assert [(retry.node, retry.attempt) for retry in retries] == [("b", 2)] * 2
    items = engine.events(run.run_id, ItemCommitted)
    assert [item.failure for item in items] == [None, None]


def test_a_retrieval_that_fails_is_tried_again(engine: Engine) -> None:
    run_id = engine.submit(RAG, {"docs/a.md": " "}, prompt="cats")
    engine.drive()

    (retry,) = rest(engine, run_id)

    assert (retry.node, retry.attempt, retry.of) == ("r", 2, 2)
    assert "no document" in retry.reason
    assert engine.failure(run_id).code == "R020"


def test_a_run_that_ends_meanwhile_ends_the_attempts(engine: Engine, tmp_path: Path) -> None:
    run_id = submit(engine, SCRIPT, tmp_path, works_at(9))

    engine.client.cancel(run_id)

    assert rest(engine, run_id)[-1].attempt == 2
    assert engine.run(run_id).status == "cancelled"
