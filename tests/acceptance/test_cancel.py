"""Cancelling: by command, by Ctrl-C, by time."""

from __future__ import annotations

import json
import signal

import pytest

from tests.support.command_line import Sleipnir
from tests.support.wait import wait_until

SLEEPER = """
description: Takes its time.
start: sleep
nodes:
  sleep: {type: script, script: sleep.sh, next: done}
  done: {type: end, output: "slept"}
"""
# Says where it is, and stays there.
SLEEP = "#!/bin/bash\ntouch started-$SLEIPNIR_RUN_ID\nexec sleep 60\n"


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with an agent that does not end by itself."""
    shared_engine.write("sleeper", SLEEPER, {"sleep.sh": SLEEP})
    return shared_engine


def started(sleipnir: Sleipnir) -> str:
    """The id of a run whose script runs."""
    run_id = sleipnir("submit", "sleeper").stdout.strip()
    file = sleipnir.project / f"started-{run_id}"
    wait_until(file.exists, "the script runs", 30)
    return run_id


def test_cancelled_runs_end_and_their_watchers_learn_of_it(sleipnir: Sleipnir) -> None:
    run_id = started(sleipnir)

    cancelled = sleipnir("cancel", run_id[:8])
    watched = sleipnir("watch", run_id)

    assert cancelled.stderr == f"cancelled run {run_id}\n"
    assert (watched.returncode, watched.stdout) == (5, "")
    assert f"error: run {run_id} cancelled: cancelled by its user" in watched.stderr


def test_machines_learn_what_was_cancelled(sleipnir: Sleipnir) -> None:
    run_id = started(sleipnir)

    first = json.loads(sleipnir("cancel", run_id, "--json").stdout)
    second = json.loads(sleipnir("cancel", run_id, "--json").stdout)

    assert first == {"run_id": run_id, "cancelled": True, "status": "cancelled"}
    assert second == {"run_id": run_id, "cancelled": False, "status": "cancelled"}


def test_a_run_that_is_over_cannot_be_cancelled(sleipnir: Sleipnir) -> None:
    run_id = started(sleipnir)
    sleipnir("cancel", run_id)

    again = sleipnir("cancel", run_id)

    assert again.returncode == 1
    assert again.stderr == f"error: run {run_id} has already ended (cancelled)\n"


def test_ctrl_c_in_run_cancels_the_run(sleipnir: Sleipnir) -> None:
    command = sleipnir.start("run", "sleeper")
    assert command.stderr is not None
    while "sleep (script)" not in command.stderr.readline():
        pass

    command.send_signal(signal.SIGINT)
    _, told = command.communicate(timeout=90)

    assert command.returncode == 130
    assert "; Ctrl-C again exits at once\n▸ graph cancelled in " in told


def test_ctrl_c_in_watch_leaves_the_run_alone(sleipnir: Sleipnir) -> None:
    run_id = started(sleipnir)
    command = sleipnir.start("watch", run_id)
    assert command.stderr is not None
    command.stderr.readline()

    command.send_signal(signal.SIGINT)
    command.communicate(timeout=90)

    assert command.returncode == 130
    assert sleipnir.json("show", run_id)["status"] == "running"
    sleipnir("cancel", run_id)


def test_a_run_over_its_time_exits_with_6(sleipnir: Sleipnir) -> None:
    done = sleipnir("run", "sleeper", "--timeout", "0.3")

    assert (done.returncode, done.stdout) == (6, "")
    assert "▸ graph timed out in " in done.stderr
