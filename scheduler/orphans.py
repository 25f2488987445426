"""Ends the programs of a worker that was killed: nobody else keeps their time any more.

Standard library only, as the supervisor that calls it.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

OWNER = "SLEIPNIR_WORKER"


def owner_mark(pid: int) -> str:
    """What `OWNER` holds in the environment of the programs that worker runs.

    With the name space of process ids, for those of a container may be seen from outside it.
    """
    try:
        return f"{Path('/proc/self/ns/pid').readlink()}:{pid}"
    except OSError:
        return str(pid)


def end_orphans(worker_pid: int) -> int:
    """Kill what a dead worker left running, descendants included; returns how many processes.

    Found by their environment, so only where there is a /proc.
    """
    mark = f"{OWNER}={owner_mark(worker_pid)}".encode()
    ended = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
                ended += 1
    return ended
