"""Calls of the `sleipnir` command in forks of a process that has imported what most of them need.

Imports are most of what a short command costs, and tests call it a thousand times. Otherwise a
fork is what a new process is: it has a directory, environment, arguments and streams of its own,
and ends by its own exit code or signal. Only what Python reads when it starts, it does not.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path

# Brings what most verbs import; the rest, each fork imports by itself.
SHARED = (
    "sleipnir.scheduler.batch.drive",
    "sleipnir.scheduler.batch.results.file",
    "sleipnir.scheduler.cli.app",
    "sleipnir.scheduler.cli.attach",
    "sleipnir.scheduler.cli.batch.status",
    "sleipnir.scheduler.cli.endings",
    "sleipnir.scheduler.cli.narration.narrator",
    "sleipnir.scheduler.cli.verbs.run",
    "sleipnir.scheduler.client.client",
    "sleipnir.scheduler.client.preparation",
    "sleipnir.worker.plan.estimate",
)
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload([*SHARED])


def call_in_fork(
    arguments: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    given: str,
    time_limit_s: float,
) -> subprocess.CompletedProcess[str]:
    """Call the command, and wait until it has exited and nobody has its output open.

    Args:
        given: what it reads from standard input.

    Raises:
        subprocess.TimeoutExpired: it did not exit in time, and was killed.
    """
    its_input, input_end = _FORKS.Pipe(duplex=False)
    output_end, its_output = _FORKS.Pipe(duplex=False)
    errors_end, its_errors = _FORKS.Pipe(duplex=False)
    streams = (its_input, its_output, its_errors)
    process = _FORKS.Process(target=_call, args=(arguments, directory, environment, streams))
    process.start()
    for stream in streams:
        stream.close()
    with ThreadPoolExecutor(3) as threads, contextlib.closing(process):
        writing = threads.submit(_write, input_end, given)
        output, errors = threads.submit(_read, output_end), threads.submit(_read, errors_end)
        process.join(time_limit_s)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(arguments, time_limit_s)
        writing.result()
        return subprocess.CompletedProcess(
            arguments, process.exitcode, output.result(), errors.result()
        )


def _write(pipe: Connection, text: str) -> None:
    with pipe, contextlib.suppress(BrokenPipeError), open(pipe.fileno(), "w", closefd=False) as end:
        end.write(text)


def _read(pipe: Connection) -> str:
    with pipe, open(pipe.fileno(), closefd=False) as end:
        return end.read()


def _call(
    arguments: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    streams: Sequence[Connection],
) -> None:
    """Become the command, in the fork."""
    for number, stream in enumerate(streams):
        os.dup2(stream.fileno(), number)
        stream.close()
    # The ones there were are of the process that forked.
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv[1:] = arguments
    runpy.run_module("sleipnir", run_name="__main__", alter_sys=True)
