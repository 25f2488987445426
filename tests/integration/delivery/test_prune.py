"""Finished runs removed by hand: which ones, with what belongs to them, and who is asked."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.cli.many import agreement
from sleipnir.scheduler.client import removal
from sleipnir.scheduler.errors import RunNotFound
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.audit.log import AuditLog
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.batches import batch_page, progress_document
from sleipnir.scheduler.views.text.tables.batches import lines_of
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.redis_server import RedisServer

HOUR_S = 3600
ASKING = """
start: a
nodes:
  a: {type: input, question: "?", validation: "len(input) > 2", next: done,
      state_updates: {said: "{{input}}"}}
  done: {type: end, output: "{{said}}"}
"""
PARENT = """
start: a
nodes:
  a: {type: agent, agent: asks, prompt: "", next: done}
  done: {type: end, output: well}
"""


def ends(engine: Engine, name: str = "asks", answer: str = "long", **request: Any) -> str:
    """A run that is over; of another answer, such as `x`, it has failed."""
    run_id = engine.submit_agent(name, ASKING, answers={"a": [answer]}, **request)
    engine.drive()
    return run_id


def stored(engine: Engine) -> set[str]:
    page = engine.queries.list_runs(RunFilter(children=True), 100)
    return {row.run_id for row in page.entries}


@pytest.fixture
def call(engine: Engine, redis_server: RedisServer) -> Any:
    def call(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["prune", "--redis", redis_server.url, *arguments])

    return call


def test_runs_that_ended_long_ago_go_after_a_look_at_them(engine: Engine, call: Any) -> None:
    begun = engine.submit_agent("asks", ASKING)
    engine.drive()
    old = [ends(engine) for _ in range(2)]
    failed = ends(engine, answer="x")
    engine.clock.move(2 * HOUR_S)
    # It began when those did, and ended just now.
    engine.client.answer(begun, "at last")
    engine.drive()
    still = engine.submit_agent("asks", ASKING)
    engine.drive()

    older = ["--older", to_rfc3339(engine.clock() - HOUR_S * 1000)]
    asked = call(*older)
    done = call(*older, "--yes")
    nothing = call(*older, "--yes", "--json")

    assert asked.exit_code == 2
    lines = [line.split() for line in asked.stderr.splitlines()]
    assert asked.stderr.startswith("3 finished runs to remove:")
    assert lines[2:4] == [["2", "succeeded", "asks"], ["1", "failed", "asks"]]
    assert "no person is available: add --yes" in asked.stderr
    assert (done.exit_code, done.stdout) == (0, "")
    assert "3 of 3 runs were removed" in done.stderr
    assert json.loads(nothing.stdout) == {"removed": 0, "more": False}
    assert stored(engine) == {begun, still}
    for run_id in (*old, failed):
        with pytest.raises(RunNotFound):
            engine.run(run_id)
    (noted,) = AuditLog(engine.redis).newest(9).entries
    assert (noted.act.act, noted.act.via, noted.act.outcome) == ("prune", "cli", "3 removed")
    assert set(noted.act.target.split()) == {*old, failed}
    assert_consistent(engine.redis, runs=2)


def test_conditions_hold_together(engine: Engine, call: Any) -> None:
    kept = {
        ends(engine, "asks", "x"),
        ends(engine, "other", "x", batch="b"),
        ends(engine, "asks", batch="b"),
    }
    gone = ends(engine, "asks", "x", batch="b")

    done = call("--status", "failed", "--agent", "asks", "--batch", "b", "--yes")

    assert done.exit_code == 0
    assert stored(engine) == kept
    assert gone not in kept
    assert_consistent(engine.redis, runs=3)


def test_one_condition_is_needed(engine: Engine, call: Any) -> None:
    run_id = ends(engine)

    refused = call("--yes")

    assert refused.exit_code == 2
    assert "choose runs with --older, --status" in refused.stderr
    assert stored(engine) == {run_id}


@pytest.mark.parametrize(("typed", "code"), [("\n", 1), ("no\n", 1), ("Y\n", 0)])
def test_on_a_terminal_it_asks(
    engine: Engine, call: Any, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    ends(engine)
    monkeypatch.setattr(agreement, "is_terminal", lambda: True)
    monkeypatch.setattr(agreement, "read_line", lambda: typed)

    said = call("--status", "succeeded")

    assert said.exit_code == code
    assert len(stored(engine)) == code


def test_child_runs_go_with_their_run(engine: Engine, call: Any) -> None:
    engine.write("asks", ASKING)
    parent = engine.submit_agent("parent", PARENT)
    engine.drive()
    (child,) = engine.queries.children(parent)
    engine.client.cancel(parent)
    assert stored(engine) == {parent, child.run_id}

    call("--agent", "parent", "--yes")

    assert stored(engine) == set()
    assert_consistent(engine.redis, runs=0)


def test_what_goes_on_meanwhile_stays_and_what_is_left_is_found_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_AT_ONCE", 2)
    monkeypatch.setattr(removal, "MOST_SELECTED", 4)
    for _ in range(5):
        ends(engine, answer="x")
        engine.clock.move(1)
    wanted = RunFilter(statuses=frozenset({Status.FAILED}))

    runs = removal.select(engine.queries, wanted)
    engine.client.retry(runs.run_ids[0])
    removed = list(islice(removal.remove(engine.client, runs), 3))
    left = removal.select(engine.queries, wanted)

    assert (len(runs.run_ids), runs.is_whole) == (4, False)
    assert removed == [False, True, True]
    assert runs.run_ids[3] in left.run_ids
    assert (len(left.run_ids), left.is_whole) == (2, True)
    assert engine.run(runs.run_ids[0]).status not in {Status.FAILED, Status.CANCELLED}


def test_a_batch_still_tells_what_its_removed_runs_were(engine: Engine, call: Any) -> None:
    engine.store.batches.announce("night", "asks", 4)
    for answer in ("long", "longer", "x"):
        ends(engine, answer=answer, batch="night")
    engine.submit_agent("asks", ASKING, batch="night")

    call("--batch", "night", "--status", "succeeded", "--yes")
    (row,) = engine.queries.batch_rows(["night"])
    document = batch_page(engine.queries, "night")

    assert row is not None
    assert document is not None
    assert (row.runs, row.removed, row.failed) == (2, 2, 1)
    assert (document["removed"], document["usage"]["cost_usd"]) == (2, 0.0)
    assert progress_document(engine.queries, document, engine.clock())["total"] == 4
    assert "3/4" in "\n".join(lines_of([document]))
    assert_consistent(engine.redis, runs=2)
