"""A visit that lost two workers is executed in a process of its own, which proves its guilt."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import redis

from sleipnir.worker.executors.script import INLINE_STATE_BYTES
from tests.support.fleet import SETTINGS, lose_workers
from tests.support.invariants import assert_consistent
from tests.support.processes import is_alive
from tests.support.wait import wait_until
from tests.support.workers import Worker, Workers

GRAPH = """
start: s
nodes:
  s: {type: script, script: s.sh, timeout: 600, next: z}
  z: {type: end, output: done}
"""
WAITS = "echo $$ >> pids; until [ -e go ]; do sleep 0.05; done; echo {}"
MAX_WAIT_S = 90
# On a busy machine no lease is to end that nobody has lost.
UNHURRIED = {**SETTINGS, "lease_s": 15}


def submit_suspect(
    workers: Workers, client: redis.Redis, script: str, directory: Path, **request: Any
) -> str:
    run_id = workers.submit(GRAPH, {"s.sh": script}, workdir=str(directory), **request)
    lose_workers(client, run_id, 2)
    return run_id


def pids(directory: Path) -> list[int]:
    file = directory / "pids"
    return [int(pid) for pid in file.read_text().split()] if file.exists() else []


def wait_for_pids(directory: Path, count: int) -> list[int]:
    wait_until(lambda: len(pids(directory)) >= count, f"{count} scripts began", MAX_WAIT_S)
    return pids(directory)


def parent_of(pid: int) -> int | None:
    """The parent of a process; None if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_one_that_kills_its_process_twice_fails_and_disturbs_nobody(
    workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    kills = 'echo $$ >> pids; echo "$GRAPH_STATE_FILE" >> files; kill -9 $PPID'
    large = {"large": "x" * INLINE_STATE_BYTES}
    poison = submit_suspect(workers, redis_client, kills, tmp_path, state=large)
    once = "[ -e died ] || { touch died; kill -9 $PPID; }; echo {}"
    forgiven = submit_suspect(workers, redis_client, once, tmp_path)
    worker = workers.start("--scheduler", **UNHURRIED)
    others = [workers.submit(GRAPH, {"s.sh": "echo {}"}) for _ in range(5)]

    failure = workers.client.wait(poison).failure
    statuses = {str(workers.client.wait(run_id).status) for run_id in (forgiven, *others)}

    assert failure is not None
    assert (failure.code, failure.node, failure.message) == (
        "R022",
        "s",
        "node 's' killed its isolated process twice in a row: killed by signal 9 (SIGKILL)",
    )
    assert len(pids(tmp_path)) == 2
    left = [Path(file) for file in (tmp_path / "files").read_text().splitlines()]
    assert [file.parent.exists() for file in left] == [False, False]
    assert statuses == {"succeeded"}
    assert worker.is_running()
    assert_consistent(redis_client, runs=7)


def test_suspects_run_side_by_side_and_end_with_their_runs(
    workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    run_ids = [submit_suspect(workers, redis_client, WAITS, tmp_path) for _ in range(2)]
    worker = workers.start("--scheduler", **UNHURRIED)

    processes = {parent_of(pid) or 0 for pid in wait_for_pids(tmp_path, 2)}
    workers.client.cancel(run_ids[0])
    wait_until(lambda: sum(map(is_alive, processes)) == 1, "its process has ended", MAX_WAIT_S)
    ended = [pid for pid in pids(tmp_path) if not is_alive(pid)]
    (tmp_path / "go").touch()
    statuses = [str(workers.client.wait(run_id).status) for run_id in run_ids]

    assert len(processes) == 2
    assert worker.pid not in processes
    assert len(ended) == 1
    assert statuses == ["cancelled", "succeeded"]
    assert worker.is_running()
    assert_consistent(redis_client, runs=2)


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_its_worker_and_so_do_its_programs(
    end: signal.Signals, workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    run_id = submit_suspect(workers, redis_client, "trap '' TERM; " + WAITS, tmp_path)
    worker = workers.start(**UNHURRIED, drain_s=1)
    (script,) = wait_for_pids(tmp_path, 1)
    process = parent_of(script)
    assert process is not None

    os.kill(worker.pid, end)
    worker.exit_code(MAX_WAIT_S)

    wait_until(lambda: not is_alive(process), "the process has ended", MAX_WAIT_S)
    wait_until(lambda: not is_alive(script), "its program has ended", MAX_WAIT_S)
    assert workers.run(run_id).status == "running"
    assert_consistent(redis_client, runs=1)


def test_workers_killed_from_outside_prove_nothing(
    workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    workers.start_scheduler(**SETTINGS)
    run_id = submit_suspect(workers, redis_client, WAITS, tmp_path)
    for _ in range(2):
        start_and_wait(workers, tmp_path).kill()

    start_and_wait(workers, tmp_path)
    (tmp_path / "go").touch()
    run = workers.client.wait(run_id)

    assert (run.status, run.output) == ("succeeded", "done")
    assert_consistent(redis_client, runs=1)


def start_and_wait(workers: Workers, directory: Path) -> Worker:
    """A worker on which the script runs, in a process of its own."""
    worker = workers.start(**SETTINGS)
    wait_until(lambda: runs_alone(pids(directory), worker), "the script runs", MAX_WAIT_S)
    return worker


def runs_alone(scripts: list[int], worker: Worker) -> bool:
    running = {parent_of(pid) for pid in scripts if is_alive(pid)} - {None}
    return bool(running) and worker.pid not in running
