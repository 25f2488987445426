"""Forks: a new run from the middle of another one, which stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import rmtree

import pytest
from click.testing import CliRunner

from sleipnir.graphs.errors import InvalidAgent
from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.client.rerun.retry import RetryRequest
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.history import moment_after
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.audit.log import AuditLog
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.redis_server import RedisServer

LINE = """
start: a
nodes:
  a: {type: input, question: "a?", state_updates: {x: "{{input}}"}, next: b}
  b: {type: input, question: "b?", state_updates: {y: "{{input}}"}, next: done}
  done: {type: end, output: "{{initial_prompt}}: {{x}} {{y}}"}
"""
ANSWERS = {"a": ["1"], "b": ["2"]}
WIDE = """
start: a
settings: {max_concurrency: 2}
nodes:
  a: {type: input, question: "a?", next: [b, c, d]}
  b: {type: script, script: echo.sh, state_updates: {b: "{{initial_prompt}}"}, next: done}
  c: {type: script, script: echo.sh, state_updates: {c: "{{initial_prompt}}"}, next: done}
  d: {type: script, script: echo.sh, state_updates: {d: "{{initial_prompt}}"}, next: done}
  done: {type: end, output: "{{b}}{{c}}{{d}}"}
"""
ECHO = {"echo.sh": "#!/bin/sh\necho '{}'\n"}


def test_a_fork_goes_on_with_state_counts_and_nodes_of_a_step(engine: Engine) -> None:
    before = engine.finish(LINE, prompt="p", answers=ANSWERS)

    new = engine.client.fork(before.run_id, 1, state={"x": 9, "z": [1]}, prompt="q")
    assert_consistent(engine.redis, runs=2)
    engine.drive()

    fork = engine.run(new.run_id)
    assert fork.output == "q: 9 2"
    assert fork.forked_from == (before.run_id, 1)
    assert (fork.visits, fork.usage) == ({"a": 1, "b": 1, "done": 1}, NO_USAGE)
    assert engine.state(fork.run_id)["z"] == [1]
    assert moment_after(engine.queries.history(fork.run_id), 1).state["x"] == 9
    assert engine.run(before.run_id) == before
    assert_consistent(engine.redis, runs=2)


@pytest.mark.parametrize(("step", "begins_at"), [(None, "done"), (0, "a"), (2, "done")])
def test_without_a_step_it_is_the_last_one_that_leads_on(
    engine: Engine, step: int | None, begins_at: str
) -> None:
    before = engine.finish(LINE, answers=ANSWERS)

    fork = engine.client.fork(before.run_id, step)

    assert fork.frontier == (begins_at,)
    engine.drive()
    assert engine.run(fork.run_id).output == before.output


def test_a_run_at_work_is_forked_with_all_its_branches(engine: Engine) -> None:
    at_work = engine.submit(WIDE, ECHO, prompt="1", answers={"a": ["x"]})
    engine.work_once()
    engine.work_once()  # one branch of three

    fork = engine.client.fork(at_work, prompt="2")
    assert_consistent(engine.redis, runs=2)
    engine.drive()

    assert [engine.run(run_id).output for run_id in (at_work, fork.run_id)] == ["111", "222"]
    assert_consistent(engine.redis, runs=2)


def test_a_fork_runs_the_agent_as_it_is_now_if_that_can(engine: Engine) -> None:
    before = engine.finish(LINE, answers=ANSWERS)
    engine.write("tested", LINE.replace("{{x}} {{y}}", "changed {{y}}"))

    same = engine.client.fork(before.run_id, 1)
    new = engine.client.fork(before.run_id, 1, agent="current")
    engine.drive()

    assert engine.run(same.run_id).output == ": 1 2"
    assert engine.run(new.run_id).output == ": changed 2"
    engine.write("tested", LINE.replace("  b:", "  other:").replace("next: b", "next: other"))
    with pytest.raises(SubmissionRefused, match="as it is now has no node 'b'"):
        engine.client.fork(before.run_id, 1, agent="current")
    engine.write("tested", LINE.replace("next: b", "next: nowhere"))
    with pytest.raises(InvalidAgent):
        engine.client.fork(before.run_id, 1, agent="current")


def test_an_agent_that_was_named_by_a_path_is_found_there_again(
    engine: Engine, tmp_path: Path
) -> None:
    file = tmp_path / "elsewhere" / "graph.yaml"
    file.parent.mkdir()
    file.write_text(f"name: elsewhere\n{LINE}")
    before = engine.client.submit(str(file), Request(answers=ANSWERS))
    engine.drive()
    file.write_text(f"name: elsewhere\n{LINE.replace('{{x}} {{y}}', 'changed {{y}}')}")

    fork = engine.client.fork(before, 1, agent="current")
    again = engine.client.fork(fork.run_id, 1, agent="current")
    request = RetryRequest(agent="current", from_step=1)
    (retried,) = engine.client.retry_many([before], request)
    engine.drive()

    assert retried.refused is None
    outputs = [engine.run(run_id).output for run_id in (before, fork.run_id, again.run_id)]
    assert outputs == [": changed 2"] * 3


def test_an_agent_whose_path_is_gone_is_found_by_its_name(engine: Engine, tmp_path: Path) -> None:
    directory = tmp_path / "tested"
    directory.mkdir()
    (directory / "graph.yaml").write_text(f"name: tested\n{LINE}")
    before = engine.client.submit(str(directory), Request(answers=ANSWERS))
    engine.drive()
    rmtree(directory)
    engine.write("tested", LINE.replace("{{x}} {{y}}", "changed {{y}}"))

    fork = engine.client.fork(before, 1, agent="current")
    engine.drive()

    assert engine.run(fork.run_id).output == ": changed 2"


FAILING = """
start: a
nodes:
  a: {type: script, script: broken.sh, next: b}
  b: {type: script, script: broken.sh, fallback: c, next: c}
  c: {type: input, question: "c?", state_updates: {c: "{{input}}"}, next: done}
  done: {type: end, output: "{{c}}"}
"""
BROKEN = {"broken.sh": "#!/bin/sh\necho no luck >&2\nexit 3\n"}


def test_what_the_run_had_outlived_the_fork_has_outlived_too(engine: Engine) -> None:
    before = engine.finish(FAILING, BROKEN, answers={"c": ["1"]})
    assert (before.failed_nodes, before.handled_failures) == (1, 1)

    fork = engine.client.fork(before.run_id, 2)
    earlier = engine.client.fork(before.run_id, 0)
    assert_consistent(engine.redis, runs=3)
    engine.drive()

    done = engine.run(fork.run_id)
    assert (done.failed_nodes, done.handled_failures) == (1, 1)
    assert engine.queries.failures(done) == engine.queries.failures(before)
    found = engine.client.diff(before.run_id, fork.run_id)
    assert found.equal
    assert [node.node for node in found.nodes if node.fields["error"].differs] == []
    assert len(engine.queries.failures(engine.run(earlier.run_id))) == 2  # its own
    assert_consistent(engine.redis, runs=3)


def test_what_cannot_be_forked_is_refused_with_the_reason(engine: Engine) -> None:
    before = engine.finish(LINE, answers=ANSWERS)

    with pytest.raises(SubmissionRefused, match="step 7 does not exist; the last one is 3"):
        engine.client.fork(before.run_id, 7)
    with pytest.raises(SubmissionRefused, match="ended with step 3: fork it after step 2"):
        engine.client.fork(before.run_id, 3)
    with pytest.raises(SubmissionRefused, match="cannot be stored"):
        engine.client.fork(before.run_id, 1, state={"x": float("nan")})
    engine.redis.delete(f"sleipnir:bundle:{before.digest}")
    with pytest.raises(SubmissionRefused, match="no longer stored; use `--agent current`"):
        engine.client.fork(before.run_id, 1)
    assert len(engine.newest_runs()) == 1


def test_the_command_prints_the_new_ids_or_stays(engine: Engine, redis_server: RedisServer) -> None:
    before = engine.finish(LINE, answers=ANSWERS)
    at = ["--redis", redis_server.url, before.run_id[:12]]

    several = CliRunner().invoke(cli, ["fork", *at, "--step", "1", "-n", "2", "--json"])
    one = CliRunner().invoke(cli, ["fork", *at, "--set", "x=7", "-q"])
    engine.drive()
    shown = CliRunner().invoke(cli, ["show", "--redis", redis_server.url, one.stdout.strip()])
    told = CliRunner().invoke(
        cli, ["watch", "--redis", redis_server.url, one.stdout.strip(), "--replay", "--speed", "9"]
    )

    documents = [json.loads(line) for line in several.stdout.splitlines()]
    assert [found["forked_from"] for found in documents] == [
        {"run_id": before.run_id, "step": 1}
    ] * 2
    newest = AuditLog(engine.redis).newest(9).entries[0].act
    noted = (newest.act, newest.target, newest.outcome)
    assert noted == ("fork", before.run_id, f"run {one.stdout.strip()}")
    assert f"fork of  {before.run_id} after step 2" in shown.stdout
    assert told.stdout == ": 7 2\n"
    assert f"▸ graph: tested (fork of {before.run_id} after step 2)" in told.stderr
    assert "▸   state changed: x" in told.stderr
