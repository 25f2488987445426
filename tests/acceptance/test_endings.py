"""A command that is told to end, or whose output nobody reads, ends as other tools do."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.command_line import COMMAND, TIME_LIMIT_S, Sleipnir
from tests.support.wait import wait_until

SLEEPER = """
start: sleep
nodes:
  sleep: {type: script, script: sleep.sh, next: done}
  done: {type: end, output: "{{initial_prompt}}"}
"""
# Until the gate that its prompt names is there; at once without one.
SLEEP = """#!/usr/bin/env bash
gate=$(sed -n 's/.*"initial_prompt": *"\\([^"]*\\)".*/\\1/p' <<< "$GRAPH_STATE")
while [ -n "$gate" ] && [ ! -e "$gate" ]; do sleep 0.1; done
echo '{}'
"""


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with an agent that waits for a file."""
    shared_engine.write("sleeper", SLEEPER, {"sleep.sh": SLEEP})
    return shared_engine


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_goes_on_without_its_command_which_says_so(
    sleipnir: Sleipnir, tmp_path: Path, number: signal.Signals
) -> None:
    gate = tmp_path / "gate"
    command = sleipnir.start("run", "sleeper", str(gate))
    assert command.stderr is not None
    while "sleep (script)" not in command.stderr.readline():
        pass

    command.send_signal(number)
    output, said = command.communicate(timeout=TIME_LIMIT_S)
    run_id = said.partition("terminated: run ")[2][:16]
    gate.touch()
    watched = sleipnir("watch", run_id)

    assert (command.returncode, output) == (-number, "")
    assert len(said.splitlines()) == 1
    assert f"`sleipnir watch {run_id}` follows it, `sleipnir cancel {run_id}` ends it" in said
    assert (watched.returncode, watched.stdout) == (0, f"{gate}\n")


def test_watch_says_that_the_run_goes_on(sleipnir: Sleipnir, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    run_id = sleipnir("submit", "sleeper", str(gate)).stdout.strip()
    watcher = sleipnir.start("watch", run_id)
    assert watcher.stderr is not None
    while "sleep (script)" not in watcher.stderr.readline():
        pass

    watcher.send_signal(signal.SIGTERM)
    _, said = watcher.communicate(timeout=TIME_LIMIT_S)
    gate.touch()

    assert watcher.returncode == -signal.SIGTERM
    assert f"terminated: run {run_id} continues" in said
    assert sleipnir("watch", run_id).returncode == 0


def test_a_batch_says_how_far_it_came_and_leaves_no_files(
    sleipnir: Sleipnir, tmp_path: Path
) -> None:
    gate, lines, results = (tmp_path / name for name in ("gate", "in.jsonl", "results"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    lines.write_text(f'""\n"{gate}"\n')
    call = ("batch", "sleeper", str(lines), "-o", str(results))
    command = Sleipnir(tmp_path, **{**sleipnir.environment, "TMPDIR": str(temporary)})
    command.project = sleipnir.project
    first = command.start(*call)
    wait_until(lambda: results.exists() and results.read_text(), "the first result")

    first.send_signal(signal.SIGTERM)
    _, said = first.communicate(timeout=TIME_LIMIT_S)
    gate.touch()
    again = sleipnir(*call)

    assert first.returncode == -signal.SIGTERM
    assert "terminated after 1 of 2 lines; runs in progress (1) continue" in said
    assert list(temporary.iterdir()) == []
    assert again.returncode == 0


@pytest.mark.parametrize("call", ["--help", "schema", "run sleeper -q", "nonsense"])
def test_a_pipe_that_nobody_reads_ends_it_silently(sleipnir: Sleipnir, call: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    output = {"stdout": writer, "stderr": writer if call == "nonsense" else subprocess.PIPE}

    with os.fdopen(writer):
        called = subprocess.run(
            [*COMMAND, *call.split()],
            cwd=sleipnir.project,
            env=sleipnir.environment,
            timeout=TIME_LIMIT_S,
            check=False,
            **output,
        )

    assert called.returncode == -signal.SIGPIPE
    assert not called.stderr


@pytest.mark.parametrize("call", ["--help", "schema", "run sleeper -q", "ps --json"])
def test_a_full_disk_is_reported_in_one_line(sleipnir: Sleipnir, call: str) -> None:
    with Path("/dev/full").open("w") as full:
        called = subprocess.run(
            [*COMMAND, *call.split()],
            cwd=sleipnir.project,
            env=sleipnir.environment,
            timeout=TIME_LIMIT_S,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert called.returncode == 1
    assert "No space left on device" in called.stderr
    assert len(called.stderr.splitlines()) == 1


def test_a_current_directory_that_is_gone_is_named(sleipnir: Sleipnir, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f'rmdir "$PWD"; {shlex.join(COMMAND)} run sleeper'

    called = subprocess.run(
        ["bash", "-c", command],
        cwd=gone,
        env=sleipnir.environment,
        timeout=TIME_LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (called.returncode, called.stderr) == (
        2,
        "error: the current directory does not exist any more; change to another one\n",
    )
