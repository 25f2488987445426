"""Programs that left their process group end with their node, and with the worker, all the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.mcp import ROOT
from tests.support.processes import children_of, is_alive
from tests.support.wait import wait_until
from tests.support.workers import Workers

LIMIT_S = 60
GRAPH = """
start: a
nodes:
  a: {type: script, script: a.sh, timeout: 120, next: z}
  z: {type: end, output: "{{error}}"}
"""
# A session of its own; one that ignores SIGTERM and has a child; an orphan without the
# environment; one that no hangup ends.
LEAVES = """
    touch pids
    setsid bash -c 'echo $BASHPID >> pids; exec sleep 300' &
    (setsid bash -c 'trap "" TERM; echo $BASHPID >> pids; sleep 300 & echo $! >> pids; wait' &)
    (env -i PATH="$PATH" setsid bash -c 'echo $BASHPID >> pids; exec sleep 300' &)
    nohup bash -c 'echo $BASHPID >> pids; exec sleep 300' > /dev/null 2>&1 &
    until [ "$(wc -l < pids)" -ge 5 ]; do sleep 0.02; done
"""
STAYS = f"{LEAVES}\n    touch ready\n    sleep 300\n"


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    directory = tmp_path / "workdir"
    directory.mkdir()
    return directory


def submit(workers: Workers, workdir: Path, script: str) -> str:
    return workers.submit(GRAPH, {"a.sh": script}, workdir=str(workdir))


def alive(workdir: Path) -> list[int]:
    pids = [int(pid) for pid in (workdir / "pids").read_text().split()]
    assert len(pids) == 5
    return [pid for pid in pids if is_alive(pid)]


def test_what_a_script_leaves_behind_ends_with_its_node(workers: Workers, workdir: Path) -> None:
    workers.start()

    run = workers.client.wait(submit(workers, workdir, f"{LEAVES}\n    echo '{{}}'\n"))

    assert (run.status, run.output) == ("succeeded", "")
    assert alive(workdir) == []


def test_what_a_script_leaves_behind_ends_when_its_run_is_cancelled(
    workers: Workers, workdir: Path
) -> None:
    workers.start()
    run_id = submit(workers, workdir, STAYS)
    wait_until((workdir / "ready").exists, "the programs run", LIMIT_S)

    workers.client.cancel(run_id)

    wait_until(lambda: not alive(workdir), "the programs are gone", LIMIT_S)


def test_what_a_script_leaves_behind_ends_with_its_worker(workers: Workers, workdir: Path) -> None:
    worker = workers.start(drain_s=0.1)
    submit(workers, workdir, STAYS)
    wait_until((workdir / "ready").exists, "the programs run", LIMIT_S)

    worker.terminate()

    assert worker.exit_code(LIMIT_S) == 0
    assert alive(workdir) == []


def test_a_supervisor_ends_what_a_killed_worker_left_behind(
    workers: Workers, workdir: Path
) -> None:
    supervisor = workers.start_supervised(1)
    submit(workers, workdir, STAYS)
    wait_until((workdir / "ready").exists, "the programs run", LIMIT_S)
    (killed,) = children_of(supervisor.pid)

    subprocess.run(["kill", "-KILL", str(killed)], check=True)

    wait_until(lambda: not alive(workdir), "the programs are gone", LIMIT_S)
    wait_until(lambda: children_of(supervisor.pid) - {killed}, "another worker is there", LIMIT_S)


@pytest.mark.parametrize("supervised", [True, False])
def test_what_nobody_is_left_to_end_is_ended_by_the_watchdog(
    workers: Workers, workdir: Path, supervised: bool
) -> None:
    # A supervisor's worker dies with it. What has thrown its environment away is not found.
    killed = workers.start_supervised(1) if supervised else workers.start()
    submit(workers, workdir, STAYS.replace("env -i", "env"))
    wait_until((workdir / "ready").exists, "the programs run", LIMIT_S)

    os.kill(killed.pid, signal.SIGKILL)
    killed.exit_code(LIMIT_S)

    wait_until(lambda: not alive(workdir), "the programs are gone", 2 * LIMIT_S)


HANGS = """
echo $$ >> pids
setsid bash -c 'echo $BASHPID >> pids; exec sleep 300' &
trap "" TERM
"$PYTHON" -m tests.support.mcp_server
sleep 300
"""
CLOSES = """
import sys
from pathlib import Path
from sleipnir.graphs.mcp.config import McpServer
from sleipnir.worker.mcp.pool import McpPool
from sleipnir.worker.sandbox.programs import adopt_orphans

adopt_orphans()
pool = McpPool()
variables = {"PYTHONPATH": sys.argv[2], "PYTHON": sys.executable}
server = McpServer("hangs", "stdio", command="bash", args=("-c", sys.argv[1]), env=variables)
pool.tools(server, Path.cwd(), 60)
pool.close()
print("closed")
"""


def test_a_server_that_hangs_ends_with_all_it_started(tmp_path: Path) -> None:
    closed = subprocess.run(
        [sys.executable, "-c", CLOSES, HANGS, str(ROOT)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=2 * LIMIT_S,
        check=False,
    )

    assert closed.stdout == "closed\n", closed.stderr
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert [is_alive(pid) for pid in pids] == [False, False]
