"""Facts about other processes, from the kernel."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from sleipnir.worker.sandbox.programs import MARK


def state_of(pid: int) -> str | None:
    """Return the kernel's letter for a process's state; None if it does not exist."""
    try:
        # The state follows the name, which is in parentheses and may contain anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(pid: int) -> bool:
    """Return whether a process is running; a zombie is not."""
    return state_of(pid) not in (None, "Z")


def children_of(pid: int) -> set[int]:
    """Return the running children of a process."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {child for child in map(int, listed.split()) if is_alive(child)}


def end_programs_of(worker: int) -> None:
    """Kill the programs of a killed worker, which has no supervisor to do so."""
    mark = f"{MARK}={worker}:".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (process / "environ").read_bytes().split(b"\0")
            if any(variable.startswith(mark) for variable in variables):
                os.kill(int(process.name), signal.SIGKILL)
