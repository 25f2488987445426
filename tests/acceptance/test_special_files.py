"""A named pipe in the place of a file: one line says so, and nothing waits for it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

import pytest

from tests.support.command_line import COMMAND, TIME_LIMIT_S, Sleipnir

END = "start: done\nnodes:\n  done: {type: end, output: '{{initial_prompt}}'}\n"
PIPE = "it is a named pipe, not a file"
# The pipe below the directory of everything, the command that comes across it, what that says.
PIPES: Sequence[tuple[str, str, str]] = (
    ("project/pipe", "run ./pipe", "pipe, which is not an agent's directory"),
    ("project/agents/plain/.env", "validate plain", f"E003 cannot read .env: {PIPE}"),
    ("config/config.yaml", "validate plain", f"config.yaml: {PIPE}"),
    ("project/in.jsonl", "batch plain in.jsonl", f"in.jsonl': {PIPE}"),
    ("project/out", "batch plain ok.txt -o out", "it is a named pipe without a reader"),
    ("project/made", "run plain --record made", f"--record made: {PIPE}"),
    ("project/calls", "run plain --replay calls", f"calls': {PIPE}"),
)


@pytest.fixture(scope="module")
def sleipnir(shared_engine: Sleipnir) -> Sleipnir:
    """The command, with an agent to name."""
    shared_engine.write("plain", END)
    (shared_engine.project / "ok.txt").write_text("one\n")
    return shared_engine


@pytest.mark.parametrize(("place", "call", "expected"), PIPES, ids=[row[0] for row in PIPES])
def test_a_pipe_is_refused_at_once(
    sleipnir: Sleipnir, place: str, call: str, expected: str
) -> None:
    pipe = sleipnir.project.parent / place
    pipe.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(pipe, 0o600)
    try:
        called = sleipnir(*call.split())
    finally:
        pipe.unlink()

    assert called.returncode in (1, 2, 3), called.stderr
    assert expected in called.stderr + called.stdout
    assert "Traceback" not in called.stderr


def test_what_the_shell_has_opened_is_read_and_written(sleipnir: Sleipnir) -> None:
    command = f"{' '.join(COMMAND)} batch plain <(echo one) --format txt -o /dev/stdout | cat"

    called = subprocess.run(
        ["bash", "-c", command],
        cwd=sleipnir.project,
        env=sleipnir.environment,
        capture_output=True,
        text=True,
        timeout=2 * TIME_LIMIT_S,
        check=False,
    )

    assert '"output":"one"' in called.stdout.replace('": "', '":"'), called.stderr


def test_a_quote_that_nobody_closes_ends_the_reading(sleipnir: Sleipnir) -> None:
    # Long lines, for their number has a limit too.
    lines = f"(echo prompt; echo '\"'; yes {'y' * 1000})"
    command = f"{lines} | {' '.join(COMMAND)} batch plain - --format csv"

    called = subprocess.run(
        ["bash", "-c", command],
        cwd=sleipnir.project,
        env=sleipnir.environment,
        capture_output=True,
        text=True,
        timeout=2 * TIME_LIMIT_S,
        check=False,
    )

    assert called.returncode == 2
    assert "line 2 of the input is longer than 32 MiB" in called.stderr


def test_a_full_place_for_temporary_files_is_named(sleipnir: Sleipnir) -> None:
    lines = sleipnir.project / "many.txt"
    lines.write_text("".join(f"{number:016000}\n" for number in range(400)))
    # The largest file that the command may write stands for a disk without room.
    command = f"ulimit -f 1024; exec {' '.join(COMMAND)} batch plain many.txt"

    called = subprocess.run(
        ["bash", "-c", command],
        cwd=sleipnir.project,
        env=sleipnir.environment,
        capture_output=True,
        text=True,
        timeout=2 * TIME_LIMIT_S,
        check=False,
    )

    assert called.returncode == 1
    assert "Free some, or set TMPDIR" in called.stderr
    assert "Traceback" not in called.stderr
