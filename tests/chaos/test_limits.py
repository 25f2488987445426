"""Limits hold while processes die: deadlines, deliveries, and whoever's clock is wrong."""

from __future__ import annotations

import os
import random
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import redis

from sleipnir.scheduler.runs.model import Run
from tests.support.fleet import SETTINGS, Fleet, Load, under_fire
from tests.support.invariants import assert_consistent
from tests.support.processes import is_alive
from tests.support.wait import wait_until
from tests.support.workers import Workers

SLEEPS = """
settings: {timeout: 1.5}
start: s
nodes:
  s: {type: script, script: s.sh, timeout: 60, next: z}
  z: {type: end}
"""
PATIENT = "echo $$ >> pids; sleep 60"
STUBBORN = "trap '' TERM; echo $$ >> pids; sleep 60 & wait; sleep 60"
GRACE_S = 5


def long(*values: Any) -> Any:
    return pytest.param(*values, id="long", marks=[pytest.mark.chaos, pytest.mark.timeout(300)])


def pids(workdir: Path) -> list[int]:
    file = workdir / "pids"
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def lasted_s(run: Run | None) -> float:
    assert run is not None
    assert run.ended_at is not None
    assert run.started_at is not None
    return (run.ended_at - run.started_at) / 1000


@pytest.mark.parametrize("count", [pytest.param(4, id="short"), long(200)])
def test_deadlines_end_runs_and_their_programs_in_time(
    count: int, workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    workers.start("--scheduler", **{**SETTINGS, "concurrency": 32})
    run_ids = [
        workers.submit(SLEEPS, {"s.sh": script}, workdir=str(tmp_path))
        for _ in range(count // 2)
        for script in (PATIENT, STUBBORN)
    ]

    runs = [workers.client.wait(run_id) for run_id in run_ids]

    assert {str(run.status) for run in runs} == {"timed_out"}
    assert max(map(lasted_s, runs)) < 1.5 + 2
    wait_until(lambda: not any(map(is_alive, pids(tmp_path))), "no program is left", GRACE_S)
    assert len(pids(tmp_path)) >= min(count, 4)
    assert_consistent(redis_client, runs=count)


@pytest.mark.chaos
def test_a_deadline_that_passed_without_a_scheduler_is_kept_when_one_starts(
    workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    schedulers = [workers.start_scheduler(), workers.start_scheduler()]
    workers.start(**SETTINGS)
    for scheduler in schedulers:
        scheduler.kill()
    run_id = workers.submit(SLEEPS, {"s.sh": PATIENT}, workdir=str(tmp_path))
    wait_until(lambda: pids(tmp_path), "its script runs")
    passed = monotonic() + 6  # longer than a dead scheduler owns a partition
    wait_until(lambda: monotonic() > passed, "the deadline has passed", 7)
    unwatched = workers.run(run_id).status
    workers.start_scheduler()
    started = monotonic()

    ended = workers.client.wait(run_id)

    assert (unwatched, ended.status) == ("running", "timed_out")
    assert monotonic() - started < 2
    assert_consistent(redis_client, runs=1)


@pytest.mark.parametrize(("runs", "kills"), [pytest.param(12, 2, id="short"), long(300, 20)])
def test_two_schedulers_of_which_one_dies_disturb_nothing(
    runs: int, kills: int, workers: Workers, redis_client: redis.Redis, rng: random.Random
) -> None:
    fleet = Fleet(workers, rng, 1)
    schedulers = [workers.start_scheduler(), workers.start_scheduler()]
    load = Load(workers, runs, 5)

    def replace_scheduler() -> None:
        schedulers.pop(rng.randrange(2)).kill()
        schedulers.append(workers.start_scheduler())

    faults = [replace_scheduler, fleet.kill_one]
    under_fire(load.is_over, faults, every_s=0.3, at_least=kills, timeout_s=200)

    load.check()
    assert_consistent(redis_client, runs=runs)


@pytest.mark.parametrize(("count", "poisoned"), [pytest.param(20, 1, id="short"), long(200, 5)])
def test_a_node_that_kills_its_worker_fails_its_run_alone(
    count: int, poisoned: int, workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    workers.start_scheduler()
    workers.start_supervised(2, **{**SETTINGS, "max_deliveries": 20})
    poison = "echo $$ >> pids; kill -9 $PPID"
    bad = [
        workers.submit(SLEEPS.replace("1.5", "600"), {"s.sh": poison}, workdir=str(tmp_path))
        for _ in range(poisoned)
    ]
    load = Load(workers, count - poisoned, 4)

    failures = [workers.client.wait(run_id).failure for run_id in bad]
    wait_until(load.is_over, "the others are done", 60)

    assert [failure and (failure.code, failure.node) for failure in failures] == [
        ("R022", "s")
    ] * poisoned
    assert all("killed its isolated process" in failure.message for failure in failures if failure)
    # Two workers and two processes of its own each. One may take another along, begun or not.
    assert 2 * poisoned <= len(pids(tmp_path)) <= 6 * poisoned
    load.check()
    assert_consistent(redis_client, runs=count)


@pytest.mark.parametrize(("runs", "kills"), [pytest.param(10, 1, id="short"), long(200, 10)])
def test_workers_whose_clocks_are_an_hour_off_do_as_all_do(
    runs: int,
    kills: int,
    workers: Workers,
    redis_client: redis.Redis,
    rng: random.Random,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleets = []
    for off_s, arguments in ((-3600, ()), (3600, ("--scheduler",))):
        directory = tmp_path / str(off_s)
        directory.mkdir()
        (directory / "sitecustomize.py").write_text(
            "import time\n"
            "ours, ours_ns = time.time, time.time_ns\n"
            f"time.time = lambda: ours() + {off_s}\n"
            f"time.time_ns = lambda: ours_ns() + {off_s} * 10**9\n"
            f"print('off by', time.time() - ours(), flush=True)\n"
        )
        monkeypatch.setenv("PYTHONPATH", f"{directory}{os.pathsep}{Path.cwd()}")
        fleets.append(Fleet(workers, rng, 1, *arguments))
    late = workers.submit(SLEEPS, {"s.sh": PATIENT}, workdir=str(tmp_path))
    load = Load(workers, runs, 5)

    faults = [fleet.kill_one for fleet in fleets]
    under_fire(load.is_over, faults, every_s=1, at_least=kills, timeout_s=200)
    timed_out = workers.client.wait(late)

    load.check()
    log = fleets[1].members[0].log
    wait_until(lambda: "off by 3" in log.read_text(), "the newest worker says how late it is")
    assert timed_out.status == "timed_out"
    assert 1.5 <= lasted_s(timed_out) < 1.5 + 6  # the scheduler may be the one that was killed
    assert_consistent(redis_client, runs=runs)
