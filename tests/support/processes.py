"""What tests ask the kernel about processes that are not theirs."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

from sleipnir.worker.sandbox.programs import MARK


def state_of(pid: int) -> str | None:
    """The kernel's letter for what a process does; None if there is none."""
    try:
        # The state follows the name, which stands in parentheses and may contain anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    return state_of(pid) not in (None, "Z")


def children_of(pid: int) -> set[int]:
    """The running children of a process."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return {child for child in map(int, listed.split()) if is_alive(child)}


def end_programs_of(worker: int) -> None:
    """Kill the programs of a worker that was killed, for it has no supervisor that would."""
    mark = f"{MARK}={worker}:".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (process / "environ").read_bytes().split(b"\0")
            if any(variable.startswith(mark) for variable in variables):
                os.kill(int(process.name), signal.SIGKILL)
