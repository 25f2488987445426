"""Ends the programs of a worker that was killed: nobody else keeps their time any more.

Standard library only, as the supervisor that calls it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

OWNER = "SLEIPNIR_WORKER"

# In a process that executes a single visit for a worker: its programs are that worker's too.
_mark: str | None = None


def owner_mark(pid: int) -> str:
    """What `OWNER` holds in the environment of the programs that worker runs.

    With the name space of process ids, for those of a container may be seen from outside it.
    """
    try:
        return f"{Path('/proc/self/ns/pid').readlink()}:{pid}"
    except OSError:
        return str(pid)


def mark_below(part: str) -> str:
    """The mark of a process of this worker's that runs programs itself, and of those."""
    return f"{owner_mark(os.getpid())}/{part}"


def run_programs_as(mark: str) -> None:
    """Mark the programs that this process runs so from now on."""
    global _mark
    _mark = mark


def program_mark() -> str:
    """What `OWNER` holds in the environment of the programs that this process runs."""
    return _mark or owner_mark(os.getpid())


def end_orphans(worker_pid: int) -> int:
    """Kill what a dead worker left running, descendants included; returns how many processes.

    Found by their environment, so only where there is a /proc.
    """
    return end_programs(owner_mark(worker_pid))


def end_programs(mark: str) -> int:
    """Kill all that carry a mark, or one below it; returns how many processes."""
    sought = f"{OWNER}={mark}".encode()
    ended = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (process / "environ").read_bytes().split(b"\0")
            if any(text == sought or text.startswith(sought + b"/") for text in variables):
                os.kill(int(process.name), signal.SIGKILL)
                ended += 1
    return ended
