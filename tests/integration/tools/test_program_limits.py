"""Programs that take more of the machine than settings allow."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sleipnir.scheduler.config.settings import Settings
from sleipnir.worker.sandbox.child_process import Finished, run_process
from sleipnir.worker.sandbox.limits import NO_LIMITS, ProgramLimits
from sleipnir.worker.visit.cancellation import Cancellation
from tests.support.tool_calls import ToolBundle

HOG = "kept = bytearray(400 * 1024 * 1024)"
TOOL = '"""T."""\ndef run():\n    "Takes what it can."\n    {}\n'


def finished(directory: Path, limits: ProgramLimits, *command: str) -> Finished:
    return run_process(
        command,
        environment={"PATH": os.environ["PATH"]},
        workdir=directory,
        timeout_s=60,
        output_limit_bytes=10_000,
        cancellation=Cancellation(),
        limits=limits,
    )


def test_a_program_that_wants_too_much_memory_fails_and_learns_of_the_limit(
    tmp_path: Path,
) -> None:
    ended = finished(tmp_path, ProgramLimits(memory_mb=200), "python3", "-c", HOG)

    assert ended.returncode == 1
    assert ended.exceeded == "exceeded 200 MB of memory (program_memory_mb)"


def test_a_program_is_limited_before_it_begins(tmp_path: Path) -> None:
    limits = ProgramLimits(memory_mb=200, cpu_s=7)
    show = 'echo "$(ulimit -S -d) $(ulimit -H -d) $(ulimit -S -t) $(ulimit -H -t) $# $1"'

    ended = finished(tmp_path, limits, "bash", "-c", show, "bash", "a b; c")
    missing = finished(tmp_path, limits, "no-such-program")

    assert ended.stdout.decode().strip() == "204800 204800 7 12 1 a b; c"
    assert (missing.returncode, b"no-such-program" in missing.stderr) == (127, True)


def test_memory_below_the_limit_is_given(tmp_path: Path) -> None:
    assert finished(tmp_path, ProgramLimits(memory_mb=1_000), "python3", "-c", HOG).returncode == 0
    assert finished(tmp_path, NO_LIMITS, "python3", "-c", HOG).returncode == 0


@pytest.mark.parametrize("script", ["while :; do :; done", "(while :; do :; done); exit $?"])
def test_a_program_that_spins_ends_at_its_limit(tmp_path: Path, script: str) -> None:
    ended = finished(tmp_path, ProgramLimits(cpu_s=1), "bash", "-c", script)

    assert ended.exceeded == "exceeded 1 s of CPU time (program_cpu_s)"
    assert not ended.timed_out


def test_time_without_work_is_free(tmp_path: Path) -> None:
    ended = finished(tmp_path, ProgramLimits(cpu_s=1), "sleep", "1.2")

    assert (ended.returncode, ended.exceeded) == (0, None)


def test_a_limit_that_was_not_reached_is_not_blamed(tmp_path: Path) -> None:
    ended = finished(tmp_path, ProgramLimits(200, 5), "bash", "-c", "echo oops >&2; exit 1")

    assert (ended.returncode, ended.exceeded) == (1, None)


def test_a_tool_tells_the_model_which_limit_it_ran_into(tmp_path: Path) -> None:
    bundle = ToolBundle(tmp_path)
    context = bundle.context.under(Settings(program_memory_mb=200))

    value = bundle.value(bundle.tool(TOOL.format(HOG), "hog.py"), limits=context.limits)

    assert value["tool_call_error"] == (
        "hog: exceeded 200 MB of memory (program_memory_mb): exit code 1"
    )
    assert "MemoryError" in value["stderr"]
