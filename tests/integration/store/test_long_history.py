"""The history of a run with very many steps: bounded, and still told."""

from __future__ import annotations

import json
from typing import cast

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.runs.history import moment_after, node_times
from sleipnir.scheduler.runs.model import Lease
from sleipnir.scheduler.runs.plan import Plan
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.noise import noise
from tests.support.redis_server import RedisServer
from tests.support.runs import RUN, begin, go_to, started

LIMIT = 64 * 1024
STEPS = 200


@pytest.fixture
def long_run(engine: Engine) -> Engine:
    """A run that has gone on for `STEPS` steps, each of which wrote 2 kB."""
    engine.configure(history_limit_bytes=LIMIT)
    lease = started(engine)
    for step in range(1, STEPS + 1):
        writes = {"k": json.dumps(f"{step} {noise(2_000, step)}"), f"k{step % 5}": str(step)}
        go_on(engine, lease, step, go_to("s", **writes))
        lease = begin(engine, f"{step + 1}/s")
    return engine


def go_on(engine: Engine, lease: Lease, step: int, plan: Plan) -> None:
    nodes = {"s": {"ms": 1}}
    engine.store.visits.advance(lease, step, plan, cap=STEPS + 1, window=8, nodes=nodes)


def history_bytes(engine: Engine) -> int:
    return sum(map(len, cast(list[str], engine.redis.lrange(f"{{p01}}:history:{RUN}", 0, -1))))


def test_a_long_history_is_bounded_and_tells_every_step(long_run: Engine) -> None:
    history = long_run.queries.history(RUN)

    assert history_bytes(long_run) < 2 * LIMIT
    assert [checkpoint.step for checkpoint in history] == list(range(STEPS + 1))
    assert long_run.queries.steps(RUN) == STEPS
    assert moment_after(history, STEPS).state == long_run.state(RUN)
    assert moment_after(history, 2).state["k"] == f"2 {noise(2_000, 2)}"
    (row,) = node_times(history)
    assert row.visits == STEPS
    record = long_run.redis.hgetall(f"{{p01}}:run:{RUN}")
    assert int(record["history_bytes"]) == history_bytes(long_run)


def test_a_run_with_a_folded_history_ends_like_any_other(long_run: Engine) -> None:
    lease = Lease(RUN, f"{STEPS + 1}/s", "t1")

    go_on(long_run, lease, STEPS + 1, Plan({}, output="done"))

    assert long_run.run(RUN).output == "done"
    assert long_run.redis.pttl(f"{{p01}}:history:{RUN}") > 0
    assert_consistent(long_run.redis, runs=1)


def test_folding_that_somebody_else_has_done_changes_nothing(
    long_run: Engine,
) -> None:
    before = long_run.redis.lrange(f"{{p01}}:history:{RUN}", 0, -1)

    long_run.store.call("fold_history", RUN, "0", 3, 0, LIMIT, "{}")
    long_run.store.call("fold_history", "01" + "f" * 14, "0", 3, 0, LIMIT, "{}")

    assert long_run.redis.lrange(f"{{p01}}:history:{RUN}", 0, -1) == before
    assert not long_run.redis.keys("*" + "f" * 14)


def test_the_commands_that_read_it_cope(long_run: Engine, redis_server: RedisServer) -> None:
    at = ["--redis", redis_server.url, RUN]

    gone = CliRunner().invoke(cli, ["state", *at, "--step", "50"])
    kept = CliRunner().invoke(cli, ["state", *at, "k2", "--step", str(STEPS)])
    told = CliRunner().invoke(cli, ["state", *at, "--diff", "--step", "50"])
    shown = CliRunner().invoke(cli, ["show", *at])

    assert gone.exit_code == 2
    assert "step 50 is no longer stored separately" in gone.stderr
    assert kept.stdout == "197\n"
    assert told.stdout.startswith("step 50: ")
    assert told.stdout.endswith("(its changes are among those of a later step)\n")
    assert shown.exit_code == 0
