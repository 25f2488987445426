"""`sleipnir doctor --verify`: whether all that is stored of runs fits together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.people.saved_views import SavedViews
from tests.support.command_line import Sleipnir
from tests.support.engine import Engine
from tests.support.hooks import hook_key
from tests.support.redis_server import RedisServer

GRAPH = "start: z\nnodes: {z: {type: end, output: ok}}"


@pytest.fixture
def verify(tmp_path: Path, redis_server: RedisServer) -> tuple[Sleipnir, tuple[str, ...]]:
    return Sleipnir(tmp_path), ("doctor", "--verify", "--redis", redis_server.url)


def test_consistent_runs_exit_with_0(
    engine: Engine, verify: tuple[Sleipnir, tuple[str, ...]]
) -> None:
    sleipnir, arguments = verify
    engine.submit(GRAPH)
    engine.finish(GRAPH)

    done = sleipnir(*arguments)

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "2 runs checked, 0 violations\n"


def test_runs_of_a_batch_that_wait_for_their_turn_are_consistent(
    engine: Engine, verify: tuple[Sleipnir, tuple[str, ...]]
) -> None:
    sleipnir, arguments = verify
    for _ in range(3):
        engine.submit(GRAPH, batch="b")
    assert engine.redis.zcard("sleipnir:turns") > 0

    assert sleipnir(*arguments).stdout == ""


def test_what_people_keep_until_they_remove_it_is_consistent(
    engine: Engine, verify: tuple[Sleipnir, tuple[str, ...]], tmp_path: Path
) -> None:
    sleipnir, arguments = verify
    engine.configure(hook_key_file=hook_key(tmp_path))
    SavedViews(engine.redis).save("ada", "Mine", "agent=a")
    engine.client.hooks.create("ops", {"url": "https://ops.example/"})
    engine.client.hooks.test("ops")
    engine.client.triggers.create("issues", {"agent": "triage"})

    assert sleipnir(*arguments).stdout == ""


def test_a_violation_names_its_run_and_rule(
    engine: Engine, verify: tuple[Sleipnir, tuple[str, ...]]
) -> None:
    sleipnir, arguments = verify
    run_id = engine.finish(GRAPH).run_id
    engine.redis.hincrby(run_key("run", run_id), "n:z", 1)
    text = "node z is counted 2 times, the history admits it 1 times"

    told = sleipnir(*arguments)
    report = json.loads(sleipnir(*arguments, "--json").stdout)

    assert (told.returncode, told.stdout) == (1, f"{run_id}: visits: {text}\n")
    assert report == {
        "consistent": False,
        "runs": 1,
        "violations": [{"run_id": run_id, "rule": "visits", "text": text}],
    }
