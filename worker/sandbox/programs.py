"""The programs of agents that this process runs, and the processes they leave behind.

A program is ended with its process group. Processes that have left the group (`setsid`, double
fork) are reparented to this process when their parent dies, and recognised by a mark in their
environment. One without a mark is ended once every program that was running when it was started is
over.
"""

from __future__ import annotations

import itertools
import os
import secrets
import signal
import threading
import time
from pathlib import Path
from time import monotonic

from sleipnir.records import dataclass
from sleipnir.scheduler.embedded import orphans

MARK = "SLEIPNIR_PROGRAM"

_TOKEN = secrets.token_hex(4)
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """One program, from start to exit."""

    mark: str  # the value of `MARK` in its environment
    began: int  # clock ticks since boot, as in /proc


class _Running:
    """State shared by all threads."""

    def __init__(self) -> None:
        self.adopts = False
        # Set if this process itself belongs to a program, such as a worker that a script has
        # started.
        self.outer = os.environ.get(MARK)
        self.first: int | None = None  # when the first program was started
        self.programs: set[Program] = set()
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()


_running = _Running()


def adopt_orphans(below: str | None = None) -> None:
    """Make this process adopt the orphans of its programs, so that it can end them.

    Args:
        below: the mark of the program that this process itself belongs to.
    """
    _running.adopts = orphans.adopt()
    _running.outer = below or _running.outer


def marks() -> str:
    """Return the environment entry, as a prefix, that marks the programs of this process."""
    return f"{MARK}={_own_marks()}"


def _own_marks() -> str:
    own = f"{os.getpid()}:{_TOKEN}:"
    return f"{_running.outer}/{own}" if _running.outer else own


def begin() -> Program:
    """Register a program that is about to be started, and return it with its mark."""
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)
    with _running.lock:
        program = Program(f"{_own_marks()}{next(_running.numbers)}", now)
        _running.programs.add(program)
        if _running.first is None:
            _running.first = now
    return program


def over(program: Program, grace_s: float) -> None:
    """Unregister a program that has exited, or never started, and end what it left behind.

    Processes that ignore SIGTERM are killed after `grace_s`.
    """
    with _running.lock:
        _running.programs.discard(program)
    if not _running.adopts or not orphans.adopted():
        return
    grace_ends = monotonic() + grace_s
    deadline = grace_ends + orphans.KILL_LIMIT_S
    asked: set[int] = set()
    while (left := _left_behind(program)) and (now := monotonic()) < deadline:
        kills = now >= grace_ends
        for pid in left:
            if kills or pid not in asked:
                orphans.tell(pid, signal.SIGKILL if kills else signal.SIGTERM)
        asked.update(left)
        orphans.wait_for_one(left, (deadline if kills else grace_ends) - now)


def end_all() -> None:
    """End everything that programs may have left behind, as this process is about to exit."""
    if _running.adopts:
        orphans.end_children()


def _left_behind(program: Program) -> list[int]:
    """Return the processes to end now; those that have exited are reaped on the way."""
    return [
        pid
        for pid in orphans.adopted()
        if _is_of_a_program(pid) and not orphans.collect(pid) and _is_over(pid, program)
    ]


def _is_of_a_program(pid: int) -> bool:
    """Return whether it is not one of our own helpers, which share our session or are older."""
    began = _began(pid)
    if began is None or _running.first is None or began < _running.first:
        return False
    return orphans.session(pid) != os.getsid(0)


def _is_over(pid: int, program: Program) -> bool:
    """Return whether it comes from the given program, or from none that is still running."""
    mark = _mark_of(pid)
    if mark is not None and _is_below(mark, program):
        return True
    with _running.lock:
        running = list(_running.programs)
    if mark is not None and any(_is_below(mark, other) for other in running):
        return False
    began = _began(pid)
    return began is not None and all(began < other.began for other in running)


def _is_below(mark: str, program: Program) -> bool:
    """Return whether a mark is that of the program, or of one that it runs."""
    return mark == program.mark or mark.startswith(f"{program.mark}/")


def _mark_of(pid: int) -> str | None:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    prefix = f"{MARK}=".encode()
    found = next((variable for variable in variables if variable.startswith(prefix)), None)
    return None if found is None else found.removeprefix(prefix).decode(errors="replace")


def _began(pid: int) -> int | None:
    """Return a process's start time in clock ticks since boot; None if it is gone."""
    try:
        # The name, in parentheses, may contain anything; only numbers follow it.
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    except OSError:
        return None
