"""Retries of many runs: which, why they had ended, and what keeps none of them back."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import pytest
from click.testing import CliRunner, Result

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.cli.many import agreement
from sleipnir.scheduler.client.rerun import many
from sleipnir.scheduler.client.rerun.retry import RetryRequest
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.queries.filters import RunFilter
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.model_server import ModelServer, says
from tests.support.model_server import fails as refuses
from tests.support.redis_server import RedisServer

ASKING = """
start: a
nodes:
  a: {type: input, question: "?", validation: "len(input) > 2", next: done,
      state_updates: {said: "{{input}}"}}
  done: {type: end, output: "{{said}}"}
"""
BATCH = "night"


def fails(engine: Engine, name: str, answer: str = "x", **request: Any) -> str:
    """A run of the agent that cannot take the answer it was given."""
    engine.clock.move(1)
    run_id = engine.submit_agent(name, ASKING, answers={"a": [answer]}, **request)
    engine.drive()
    return run_id


def statuses(engine: Engine, run_ids: list[str]) -> list[str]:
    return [str(engine.run(run_id).status) for run_id in run_ids]


@pytest.fixture
def call(engine: Engine, redis_server: RedisServer) -> Any:
    def call(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["retry", "--redis", redis_server.url, *arguments])

    return call


def test_those_of_a_batch_go_on_after_a_look_at_their_reasons(engine: Engine, call: Any) -> None:
    failed = [fails(engine, "first", batch=BATCH) for _ in range(3)]
    cancelled = engine.submit_agent("first", ASKING, batch=BATCH)
    engine.drive()
    engine.client.cancel(cancelled)
    done = fails(engine, "first", "long", batch=BATCH)
    elsewhere = fails(engine, "first")

    asked = call("--batch", BATCH)
    all_of_them = call("--batch", BATCH, "--yes")
    engine.drive()
    nothing = call("--batch", BATCH, "--yes")

    assert asked.exit_code == 2
    assert "4 runs to retry, each where it stopped, with the agent it started with" in asked.stderr
    lines = [line.split() for line in asked.stderr.splitlines()[2:4]]
    assert [line[:3] for line in lines] == [["3", "failed", "first"], ["1", "cancelled", "first"]]
    assert "R019 at 'a': " in asked.stderr
    assert "no person is available: add --yes" in asked.stderr
    assert all_of_them.exit_code == 0
    assert set(all_of_them.stdout.split()) == {*failed, cancelled}
    assert "4 of 4 runs continue\n" in all_of_them.stderr
    assert statuses(engine, [*failed, cancelled]) == ["waiting"] * 4
    assert statuses(engine, [done, elsewhere]) == ["succeeded", "failed"]
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "no run matches" in nothing.stderr
    assert_consistent(engine.redis, runs=6)


SPENDING = """
model: openai:gpt-4o-mini
settings: {tolerate_failures: false}
start: tell
nodes:
  tell: {type: llm, prompt: "One.", next: ask}
  ask: {type: llm, prompt: "Two.", max_attempts: 1, next: z}
  z: {type: end}
"""


def test_what_is_repeated_and_its_cost_are_told_before(
    engine: Engine, call: Any, server: ModelServer
) -> None:
    server.when("One", says("a", prompt_tokens=1_000_000, completion_tokens=0))
    server.when("Two", refuses(400, "no"))
    run_ids = [engine.finish(SPENDING, batch=BATCH).run_id for _ in range(2)]

    told = call("--batch", BATCH, "--from", "1")
    free = call("--batch", BATCH)
    none = call("--batch", BATCH, "--from", "3")

    line = (
        "2 of 2 have step 1 (tell) and have spent $0.3000 from there on, which may be spent again"
    )
    assert line in told.stderr.splitlines()
    assert "spent" not in free.stderr
    assert "none of 2 has a step 3" in none.stderr.splitlines()
    assert statuses(engine, run_ids) == ["failed"] * 2


@pytest.mark.parametrize(("typed", "code"), [("\n", 1), ("no\n", 1), ("Y\n", 0)])
def test_on_a_terminal_it_asks(
    engine: Engine, call: Any, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    run_id = fails(engine, "first")
    monkeypatch.setattr(agreement, "is_terminal", lambda: True)
    monkeypatch.setattr(agreement, "read_line", lambda: typed)

    said = call("--status", "failed")

    assert said.exit_code == code
    assert engine.run(run_id).tries == (2 if code == 0 else 1)


def test_agents_are_named_and_taken_as_they_are_now(engine: Engine, call: Any) -> None:
    kept, mended, broken = (fails(engine, name) for name in ("kept", "mended", "broken"))
    engine.write("mended", ASKING.replace("> 2", "> 0"))
    engine.write("broken", ASKING.replace("next: done", "next: nowhere"))
    agents = ["--agent", "mended", "--agent", "broken", "--agent", "current", "--agents-dir"]

    said = call(*agents, str(engine.agents_directory), "--yes", "--json")
    engine.drive()

    assert said.exit_code == 3
    assert [json.loads(line)["run_id"] for line in said.stdout.splitlines()] == [mended]
    assert "nowhere" in said.stderr
    assert statuses(engine, [kept, broken]) == ["failed", "failed"]
    assert engine.run(mended).digest != engine.run(kept).digest
    assert engine.run(mended).tries == 2


def test_one_that_is_refused_keeps_no_other_back(engine: Engine, call: Any) -> None:
    done, gone, failed = fails(engine, "first", "long"), fails(engine, "first"), fails(engine, "b")
    engine.redis.delete(f"sleipnir:bundle:{engine.run(gone).digest}")

    said = call(done, gone, failed)

    assert said.exit_code == 2
    assert said.stdout == f"{failed}\n"
    assert f"error: run {done} has succeeded; say with --from" in said.stderr
    assert f"error: run {gone} cannot continue as it was" in said.stderr
    assert "1 of 3 runs continue" in said.stderr


def test_what_is_left_when_it_stops_is_found_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "_AT_ONCE", 2)
    run_ids = [fails(engine, "first", labels={"day": "1"}) for _ in range(5)]
    wanted = RunFilter(labels=(("day", "1"),))
    selection = engine.client.retriable(wanted)
    assert selection.run_ids == tuple(reversed(run_ids))
    (cause,) = selection.causes
    assert (cause.runs, cause.status, cause.example) == (5, Status.FAILED, run_ids[-1])

    first = list(islice(engine.client.retry_many(selection.run_ids), 2))
    left = engine.client.retriable(wanted)
    request = RetryRequest(state={"more": 1})
    others = list(engine.client.retry_many(left.run_ids, request))

    assert [each.refused for each in first + others] == [None] * 5
    assert sorted(each.run_id for each in first + others) == sorted(run_ids)
    assert [engine.run(run_id).tries for run_id in run_ids] == [2] * 5
    assert engine.state(run_ids[0])["more"] == 1
    engine.drive()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name runs, or choose them with --batch"),
        (("--agent", "current"), "name runs, or choose them with --batch"),
        (("0123", "--batch", "b"), "name runs, or choose them with --batch; not both"),
        (("--status", "succeeded"), "need --from"),
        (("--batch", "b", "--agent", "same", "--agent", "current"), "not both"),
        (("--batch", "nigth", "--yes"), "no batch 'nigth'"),
        (("--batch", "b", "--wait"), "--wait follows one run"),
        (("--batch", "b", "--since", "yesterday"), "yesterday"),
    ],
)
def test_what_contradicts_itself_is_refused(
    call: Any, arguments: tuple[str, ...], message: str
) -> None:
    said = call(*arguments)

    assert (said.exit_code, said.stdout) == (2, "")
    assert message in said.stderr
