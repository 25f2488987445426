"""Real worker processes: stopped, killed, and told that a run is over."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import SettingInvalid
from sleipnir.scheduler.store.connection import connect
from sleipnir.worker.process.bootstrap import make_services
from tests.support.model_server import HANGS, ModelServer, fails
from tests.support.processes import is_alive
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until
from tests.support.workers import Workers

GRAPH = """
start: a
nodes:
  a: {type: script, script: a.sh, timeout: 60, next: z}
  z: {type: end, output: "{{error}}"}
"""
# Notes its pid, then waits for the file `go`.
WAITS = """
    echo $$ >> pids
    until test -e go; do sleep 0.02; done
    echo '{}'
"""
STUBBORN = "trap '' TERM\n" + WAITS
STUBBORN_GRANDCHILD = "(trap '' TERM; echo $BASHPID >> pids; exec sleep 60) & wait"


class Scripts:
    """The scripts of a run, by the pids they note in the run's working directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def pids(self) -> list[int]:
        file = self.directory / "pids"
        return [int(pid) for pid in file.read_text().split()] if file.exists() else []

    def started(self, count: int = 1) -> int:
        """Wait for the script to start that often; the pid of the last one."""
        wait_until(lambda: len(self.pids()) >= count, f"{count} scripts have started")
        return self.pids()[count - 1]

    def let_go(self) -> None:
        (self.directory / "go").touch()


# Nodes that only commit.
LINE = yaml.safe_dump(
    {
        "start": "n0",
        "initial_state": {"none": []},
        "nodes": {
            **{
                f"n{number}": {
                    **{"type": "map", "over": "{{none}}", "as": "item", "branch": "b"},
                    **{"collect_into": "found", "next": f"n{number + 1}" if number < 9 else "z"},
                }
                for number in range(10)
            },
            "b": {"type": "script", "script": "a.sh"},
            "z": {"type": "end"},
        },
    }
)


@pytest.fixture
def scripts(tmp_path: Path) -> Scripts:
    directory = tmp_path / "workdir"
    directory.mkdir()
    return Scripts(directory)


def submit(workers: Workers, scripts: Scripts, script: str, graph: str = GRAPH) -> str:
    return workers.submit(graph, {"a.sh": script}, workdir=str(scripts.directory))


def test_a_stopping_worker_lets_its_nodes_finish(workers: Workers, scripts: Scripts) -> None:
    worker = workers.start()
    run_id = submit(workers, scripts, WAITS)
    scripts.started()

    worker.terminate()
    wait_until(lambda: "Warm shutdown" in worker.log.read_text(), "it is stopping")
    scripts.let_go()

    assert worker.exit_code() == 0
    assert workers.run(run_id).frontier == ("z",)
    assert len(scripts.pids()) == 1


def test_a_stopping_worker_hands_a_long_node_to_another_at_once(
    workers: Workers, scripts: Scripts
) -> None:
    stopping = workers.start(drain_s=0.1)
    run_id = submit(workers, scripts, STUBBORN)
    first = scripts.started()
    workers.start()

    stopping.terminate()
    # Far less than a lease, and no scheduler is there.
    scripts.started(2)
    code = stopping.exit_code()
    outlived = is_alive(first)
    scripts.let_go()

    assert (code, outlived) == (0, False)
    assert workers.client.wait(run_id).output == ""


def test_a_worker_with_nothing_else_to_do_takes_messages_from_replies(workers: Workers) -> None:
    workers.start()
    redis_: Any = workers.client.store.client
    redis_.config_resetstat()

    run = workers.client.wait(workers.submit(LINE, {"a.sh": "echo '{}'"}))

    assert (run.status, run.step) == ("succeeded", 11)
    commands = redis_.info("commandstats")
    assert commands["cmdstat_lpush"]["calls"] == 1  # the first message; the others are handed over


def test_another_worker_takes_over_from_one_that_was_killed(
    workers: Workers, scripts: Scripts
) -> None:
    killed = workers.start(lease_s=1)
    run_id = submit(workers, scripts, WAITS)
    scripts.started()
    workers.start("--scheduler", lease_s=1)

    killed.kill()
    scripts.started(2)
    scripts.let_go()

    assert workers.client.wait(run_id).status == "succeeded"


@pytest.mark.parametrize(
    "script",
    [pytest.param(STUBBORN, id="itself"), pytest.param(STUBBORN_GRANDCHILD, id="its-child")],
)
def test_cancelling_kills_the_programs_of_a_run(
    workers: Workers, scripts: Scripts, script: str
) -> None:
    workers.start()
    run_id = submit(workers, scripts, script)
    pid = scripts.started()

    workers.client.cancel(run_id)

    wait_until(lambda: not is_alive(pid), "the script is gone")
    assert workers.run(run_id).status == "cancelled"


def test_a_deadline_kills_the_programs_of_a_run(workers: Workers, scripts: Scripts) -> None:
    workers.start("--scheduler")
    run_id = submit(workers, scripts, STUBBORN_GRANDCHILD, "settings: {timeout: 0.5}\n" + GRAPH)
    pid = scripts.started()

    run = workers.client.wait(run_id)

    assert (run.status, run.failure and run.failure.code) == ("timed_out", "R005")
    wait_until(lambda: not is_alive(pid), "the script is gone")
    assert workers.state(run_id) == {"initial_prompt": ""}


ASKS_A_MODEL = """
model: openai:m
start: a
nodes:
  a: {type: llm, prompt: "?", timeout: 60, next: z}
  z: {type: end}
"""


@pytest.mark.parametrize("ended_by", ["cancel", "deadline"])
def test_a_model_call_of_a_run_that_is_over_holds_up_nobody(
    ended_by: str, workers: Workers, scripts: Scripts, server: ModelServer
) -> None:
    server.script.add(HANGS)
    workers.start("--scheduler", concurrency=1)
    limit = "settings: {timeout: 3}\n" if ended_by == "deadline" else ""
    run_id = workers.submit(limit + ASKS_A_MODEL)
    wait_until(lambda: server.requests, "the model is asked")
    other = submit(workers, scripts, "echo '{}'")

    if ended_by == "cancel":
        workers.client.cancel(run_id)

    wait_until(lambda: workers.run(other).status == "succeeded", "the other run is done")
    # The worker breaks off by its own clock; the scheduler may see the deadline after that.
    ended = {"cancel": "cancelled", "deadline": "timed_out"}[ended_by]
    wait_until(lambda: workers.run(run_id).status == ended, f"the run is {ended}")
    assert workers.state(run_id) == {"initial_prompt": ""}


ASKS_A_PERSON = """
start: a
nodes:
  a: {type: input, question: "?", next: z}
  z: {type: end}
"""
HAS_A_CHILD = """
start: a
nodes:
  a: {type: agent, agent: asks, prompt: "", next: z}
  z: {type: end}
"""


def test_nothing_that_waits_holds_the_only_thread(
    workers: Workers, scripts: Scripts, server: ModelServer
) -> None:
    server.script.add(fails(429, "come back later", {"Retry-After": "60"}))
    workers.write("asks", ASKS_A_PERSON)
    waiting = [workers.submit(graph) for graph in (ASKS_A_PERSON, HAS_A_CHILD)]
    resting = workers.submit(ASKS_A_MODEL.replace("timeout: 60", "max_attempts: 2"))
    workers.start("--scheduler", concurrency=1)
    wait_until(lambda: server.requests, "the model is asked")

    other = workers.client.wait(submit(workers, scripts, "echo '{}'"))

    assert other.status == "succeeded"
    assert [workers.run(run_id).status for run_id in waiting] == ["waiting"] * 2
    assert workers.run(resting).status == "running"


def test_a_scheduler_that_is_killed_is_replaced(workers: Workers, scripts: Scripts) -> None:
    killed = workers.start("--scheduler")
    run_id = submit(workers, scripts, WAITS, "settings: {timeout: 1}\n" + GRAPH)
    scripts.started()
    workers.start("--scheduler")

    killed.kill()

    assert workers.client.wait(run_id).status == "timed_out"


def test_a_node_that_finishes_while_redis_is_down_counts(
    tmp_path: Path, scripts: Scripts, own_directories: None
) -> None:
    with (
        RedisServer(tmp_path / "redis") as server,
        connect(server.url, retry_outage=True) as client,
        Workers(server.url, client, tmp_path) as workers,
    ):
        worker = workers.start("--scheduler")
        run_id = submit(workers, scripts, WAITS)
        pid = scripts.started()

        server.kill()
        scripts.let_go()
        wait_until(lambda: not is_alive(pid), "the script has finished")
        server.start()

        assert workers.client.wait(run_id).output == ""
        assert len(scripts.pids()) == 1
        # What kombu does with messages it cannot return.
        assert "EMERGENCY DUMP" not in worker.log.read_text()


def not_a_directory(path: Path) -> None:
    path.write_text("")


def somebody_elses(path: Path) -> None:
    (path / "bundles").mkdir(parents=True)
    os.chown(path / "bundles", 12345, -1)


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (not_a_directory, "File exists"),
        pytest.param(
            somebody_elses,
            "it belongs to user id 12345",
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root"),
        ),
    ],
)
def test_a_worker_keeps_bundles_in_a_directory_of_its_own(
    prepare: Callable[[Path], None],
    why: str,
    redis_server: RedisServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(tmp_path / "theirs")
    monkeypatch.setenv("SLEIPNIR_DATA_DIR", str(tmp_path / "theirs"))

    with pytest.raises(SettingInvalid, match=rf"cannot use .*theirs.*: {why}.*SLEIPNIR_DATA_DIR"):
        make_services(Settings(redis_url=redis_server.url))


def test_a_worker_opens_more_files_than_a_shell_allows(workers: Workers) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        worker = workers.start()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    allowed, _ = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)
    assert allowed == min(hard, 65_536)
