"""Retries and forks of runs with maps over chains: inside an item, before the map, and after it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from sleipnir.scheduler.runs.model import Run
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent

# Each node of an item says where it is; `c` goes round once, and what is written stays with it.
GRAPH = """
start: a
settings: {tolerate_failures: false}
nodes:
  a: {type: script, script: a.sh, next: m}
  m: {type: map, over: "{{items}}", as: item, branch: b, collect_into: found, max_concurrency: 2,
      next: d}
  b: {type: script, script: b.sh, state_updates: {trail: "{{item}}b"}, next: c}
  c: {type: script, script: c.sh, state_updates: {trail: "{{trail}}c", output: "{{trail}}"}}
  d: {type: script, script: d.sh, next: z}
  z: {type: end, output: "{{found}}"}
"""
SAYS = "echo $SLEIPNIR_NODE_ID >&2\n"
ROUND = """case "$GRAPH_STATE" in *bc*) echo '{}';; *) echo '{"_next": "c"}';; esac"""
OUTPUT = '["1bcc","2bcc"]'


def files(**more: str) -> dict[str, str]:
    """Return the scripts; `more` has commands that come first in those of a node."""
    bodies = {"a": "echo '{}'", "b": "echo '{}'", "c": ROUND, "d": "echo '{}'"}
    return {f"{name}.sh": SAYS + more.get(name, "") + body for name, body in bodies.items()}


def fails_until(file: Path, item: str = "") -> str:
    """Return a command that fails until a file exists: for all items, or for one."""
    here = f"""case "$GRAPH_STATE" in *'"item":{item}'*) test -e {file};; esac"""
    return f"""{here if item else f"test -e {file}"} || {{ echo no >&2; exit 3; }}\n"""


def submit(engine: Engine, scripts: dict[str, str], **state: Any) -> str:
    return engine.submit(GRAPH, scripts, state={"items": [1, 2], **state})


def visits(engine: Engine, run_id: str) -> Counter[str]:
    """Return how often the scripts of each node ran."""
    texts = (entry["text"].split()[0] for entry in engine.queries.logs(run_id))
    return Counter(text for text in texts if len(text) == 1)


def drive(engine: Engine, run_id: str) -> Run:
    engine.drive()
    assert_consistent(engine.redis, runs=1)
    return engine.run(run_id)


def test_a_retry_after_a_map_repeats_nothing_of_its_chain(engine: Engine, tmp_path: Path) -> None:
    run_id = submit(engine, files(d=fails_until(tmp_path / "ok")))
    assert drive(engine, run_id).status == "failed"
    before = visits(engine, run_id)
    (tmp_path / "ok").touch()

    engine.client.retry(run_id)

    assert drive(engine, run_id).output == OUTPUT
    assert before == {"a": 1, "b": 2, "c": 4, "d": 1}
    assert visits(engine, run_id) - before == {"d": 1}


def test_a_retry_inside_goes_on_in_the_visit_that_failed(engine: Engine, tmp_path: Path) -> None:
    second_visit = (
        f"case $SLEIPNIR_IDEMPOTENCY_KEY in */c/2) {fails_until(tmp_path / 'ok')};; esac\n"
    )
    run_id = submit(engine, files(c=second_visit))
    assert drive(engine, run_id).status == "failed"
    before = visits(engine, run_id)
    (tmp_path / "ok").touch()

    engine.client.retry(run_id)

    assert drive(engine, run_id).output == OUTPUT
    assert (visits(engine, run_id) - before)["b"] == 0
    items = engine.queries.map_items(engine.run(run_id), "m")
    assert [item.nodes for item in items] == [("b", "c", "c")] * 2


@pytest.mark.parametrize(
    ("step", "again"), [(1, {"a": 1, "b": 2, "c": 4, "d": 1}), (2, {"b": 2, "c": 4, "d": 1})]
)
def test_a_retry_from_a_step_begins_all_items_anew(
    engine: Engine, tmp_path: Path, step: int, again: dict[str, int]
) -> None:
    run_id = submit(engine, files(c=fails_until(tmp_path / "ok", item="2")))
    assert drive(engine, run_id).status == "failed"
    before = visits(engine, run_id)
    (tmp_path / "ok").touch()

    engine.client.retry(run_id, step)

    assert drive(engine, run_id).output == OUTPUT
    assert visits(engine, run_id) - before == again


def test_a_cancelled_run_goes_on_in_each_item_where_it_was(engine: Engine) -> None:
    run_id = submit(engine, files())
    for _ in range(4):  # one item has ended its first node, the other its second visit of `c`
        engine.work_once(newest=True)
    engine.client.cancel(run_id)
    engine.drive()
    before = visits(engine, run_id)
    assert_consistent(engine.redis, runs=1)

    engine.client.retry(run_id)

    assert drive(engine, run_id).output == OUTPUT
    assert sum((visits(engine, run_id) - before).values()) + sum(before.values()) == 8


@pytest.mark.parametrize(("step", "again"), [(1, {"b": 2, "c": 4, "d": 1}), (2, {"d": 1})])
def test_a_fork_runs_a_chain_if_its_step_is_before_the_map(
    engine: Engine, step: int, again: dict[str, int]
) -> None:
    run_id = submit(engine, files())
    engine.drive()

    fork = engine.client.fork(run_id, step)

    assert drive(engine, fork.run_id).output == OUTPUT
    assert visits(engine, fork.run_id) == again
    assert engine.run(fork.run_id).visits == engine.run(run_id).visits


def test_a_fork_of_a_run_in_the_middle_of_a_chain_has_items_of_its_own(
    engine: Engine, tmp_path: Path
) -> None:
    run_id = submit(engine, files(c=fails_until(tmp_path / "ok", item="2")))
    engine.drive()
    (tmp_path / "ok").touch()

    fork = engine.client.fork(run_id, state={"items": [3, 2]})

    assert fork.frontier == ("m",)
    assert drive(engine, fork.run_id).output == '["3bcc","2bcc"]'
    assert visits(engine, fork.run_id) == {"b": 2, "c": 4, "d": 1}
    assert engine.run(run_id).status == "failed"
