"""Workers and schedulers as processes of their own, on a Redis that is configured."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.store.machines import Machines
from tests.support.command_line import Sleipnir
from tests.support.pages import blocks
from tests.support.processes import children_of, is_alive
from tests.support.redis_server import RedisServer
from tests.support.sentinels import free_ports
from tests.support.wait import wait_until

HELLO = """
description: Says hello.
start: done
nodes:
  done: {type: end, output: "hello {{initial_prompt}}"}
"""


@pytest.fixture
def sleipnir(tmp_path: Path, redis_server: RedisServer, redis_client: redis.Redis) -> Sleipnir:
    """The command on an empty Redis, where nothing else runs."""
    command = Sleipnir(tmp_path, SLEIPNIR_REDIS_URL=redis_server.url)
    command.write("hello", HELLO)
    return command


def test_commands_start_nothing_on_a_configured_redis(sleipnir: Sleipnir) -> None:
    submitted = sleipnir("submit", "hello")

    assert submitted.returncode == 0
    assert (
        "no worker is running on this Redis; start one with `sleipnir worker --scheduler`"
        in submitted.stderr
    )
    assert not Path(sleipnir.environment["SLEIPNIR_DATA_DIR"]).exists()
    sleipnir("cancel", submitted.stdout.strip())


def test_a_run_that_nobody_takes_is_explained(sleipnir: Sleipnir) -> None:
    command = sleipnir.start("run", "hello")
    assert command.stderr is not None

    while "the run is queued: no worker is running" not in command.stderr.readline():
        pass
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=90)

    assert command.returncode == 130


def test_a_batch_says_that_no_worker_is_there_and_goes_on_with_the_next(
    sleipnir: Sleipnir,
) -> None:
    (sleipnir.project / "names.txt").write_text("Ada\nBo\nCy\n")
    command = sleipnir.start("batch", "hello", "names.txt")
    assert command.stderr is not None

    while "3 runs are queued: no worker is running" not in command.stderr.readline():
        pass
    worker = sleipnir.start("worker", "--scheduler")
    output, said = command.communicate(timeout=90)
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=90)

    assert command.returncode == 0, said
    assert all(f"hello {name}" in output for name in ("Ada", "Bo", "Cy"))


def test_a_worker_that_lacks_a_scheduler_is_not_said_to_be_none(sleipnir: Sleipnir) -> None:
    worker = sleipnir.start("worker")
    assert worker.stderr is not None
    while " ready." not in worker.stderr.readline():
        pass

    submitted = sleipnir("submit", "hello")
    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=90)

    assert "no scheduler is running on this Redis" in submitted.stderr
    assert "no worker" not in submitted.stderr


def test_workers_and_schedulers_serve_until_they_are_told_to_stop(sleipnir: Sleipnir) -> None:
    processes = [sleipnir.start("scheduler"), sleipnir.start("worker", "--processes", "2")]

    done = sleipnir("run", "hello", "you")
    for process in processes:
        process.send_signal(signal.SIGTERM)
    logs = [process.communicate(timeout=90)[1] for process in processes]

    assert (done.returncode, done.stdout) == (0, "hello you\n")
    assert [process.returncode for process in processes] == [0, 0], logs


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_scheduler_lets_go_of_its_work_however_it_is_ended(
    sleipnir: Sleipnir, number: signal.Signals
) -> None:
    scheduler = sleipnir.start("scheduler")
    assert scheduler.stderr is not None
    assert "running" in scheduler.stderr.readline()

    scheduler.send_signal(number)
    scheduler.communicate(timeout=90)

    assert scheduler.returncode == 0


def test_a_worker_that_dies_is_started_again(sleipnir: Sleipnir) -> None:
    command = sleipnir.start("worker", "--scheduler")
    (worker,) = wait_until(lambda: children_of(command.pid), "the worker runs", 30)

    os.kill(worker, signal.SIGKILL)
    (successor,) = wait_until(lambda: children_of(command.pid) - {worker}, "the next one", 30)
    done = sleipnir("run", "hello", "again")
    command.send_signal(signal.SIGTERM)
    command.communicate(timeout=90)

    assert successor != worker
    assert done.stdout == "hello again\n"


@pytest.mark.parametrize("is_configured", [False, True])
def test_up_ends_with_everything_it_started(
    tmp_path: Path, redis_server: RedisServer, redis_client: redis.Redis, is_configured: bool
) -> None:
    configured = {"SLEIPNIR_REDIS_URL": redis_server.url} if is_configured else {}
    command = Sleipnir(tmp_path, **configured)
    command.write("hello", HELLO)

    with command.up() as engine:
        done = command("run", "hello", "up")
        children = children_of(engine.pid)

    assert done.stdout == "hello up\n"
    assert len(children) == (1 if is_configured else 2)
    assert [pid for pid in children if is_alive(pid)] == []
    assert engine.returncode == 0


def test_up_says_in_five_lines_what_there_is_and_what_to_do(tmp_path: Path) -> None:
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}.new; mv {opened}.new {opened}\n')
    browser.chmod(0o755)
    (port,) = free_ports(1)
    sleipnir = Sleipnir(tmp_path, BROWSER=str(browser))
    with sleipnir.up("--port", str(port), "--url-prefix", "/ops/", "--open"):
        assert sleipnir("run", "log-digest", "sample").returncode == 0
        wait_until(opened.exists, "a browser was opened", 60)

    said = (tmp_path / "up.log").read_text().splitlines()
    # What goes wrong later is logged below; the knowledge base that was built and read is no news.
    assert not any("faiss" in line for line in said)
    assert [line.split(":")[0].split(" (")[0] for line in said[:5]] == [
        "engine is up",
        "data",
        "monitor",
        "try",
        "stop",
    ]
    site = f"http://127.0.0.1:{port}/ops"
    assert said[2].startswith(f"monitor: {site}/?key=")
    assert opened.read_text().startswith(f"{site}/?ticket=")


def test_the_manual_starts_processes_by_hand(sleipnir: Sleipnir, redis_server: RedisServer) -> None:
    (commands,) = (text for text in blocks("operating.md", "sh") if "sleipnir worker" in text)
    here = commands.replace("redis://:password@redis.internal:6379/0", redis_server.url)
    assert here != commands

    # Doctor finds no workers yet, which does not end a shell that somebody types into.
    done = sleipnir.type_in(
        f"set +e\n{here}sleipnir run hello hand\nkill %1 %2; wait", sleipnir.project
    )

    assert "hello hand" in done.stdout.splitlines(), done.stdout


def test_the_engine_logs_runs_on_request(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("echo", "start: z\nnodes:\n  z: {type: end}\n")

    with sleipnir.up("--no-monitor", "-v"):
        sleipnir("run", "echo")

    log = (tmp_path / "up.log").read_text()
    assert "[graph:echo] run " in log
    assert "superuser" not in log


def test_a_worker_that_is_stopped_while_it_starts_is_not_taken_for_lost(
    sleipnir: Sleipnir, redis_client: redis.Redis
) -> None:
    machines = Machines(redis_client)
    worker = sleipnir.start("worker")
    wait_until(machines.workers, "it is announced, before it takes messages")

    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=90)

    assert worker.returncode == 0
    assert machines.live_and_lost() == ([], [])
    assert not machines.any_work()
