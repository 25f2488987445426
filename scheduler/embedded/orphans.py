"""Processes whose parent has died: this process takes in those that descend from it, and ends them.

Linux only: elsewhere they go to the system's first process, out of reach. Standard library only,
as the supervisor that calls it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from time import monotonic

# Processes that die of SIGKILL do so at once, but for those the kernel is busy with.
KILL_LIMIT_S = 5.0

_PR_SET_CHILD_SUBREAPER = 36
_THREADS = "/proc/self/task"


def adopt() -> bool:
    """Become the parent of descendants whose own has died; whether the system can do that."""
    if sys.platform != "linux" or not Path(_children_file(os.getpid())).exists():
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def adopted() -> list[int]:
    """Children that this process took in, and those that its main thread has started.

    One small file: what is taken in becomes the main thread's.
    """
    return _listed(os.getpid())


def children() -> list[int]:
    """Return all children, whichever thread has started them."""
    threads = os.listdir(_THREADS)  # noqa: PTH208 - names are all that is needed
    return [pid for thread in threads for pid in _listed(int(thread))]


def end_children(known: Collection[int] = (), *, limit_s: float = KILL_LIMIT_S) -> None:
    """Kill all children but those `known`, then what they leave to us, until none is left.

    Children that belong to our own session are ours, not an agent's: they end with us.
    """
    deadline = monotonic() + limit_s
    ours = os.getsid(0)
    while monotonic() < deadline:
        strangers = [pid for pid in children() if pid not in known and session(pid) != ours]
        strangers = [pid for pid in strangers if not collect(pid)]
        if not strangers:
            return
        for pid in strangers:
            tell(pid, signal.SIGKILL)
        wait_for_one(strangers, deadline - monotonic())


def collect(pid: int) -> bool:
    """Take note of a child's end; whether it has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def tell(pid: int, number: signal.Signals) -> None:
    """Send a signal to a child, which may have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def wait_for_one(pids: Iterable[int], timeout_s: float) -> None:
    """Wait until one of some children ends, `timeout_s` at most."""
    with contextlib.ExitStack() as opened:
        poll = select.poll()
        for pid in pids:
            try:
                descriptor = os.pidfd_open(pid)
            except OSError:
                return  # it has ended
            opened.callback(os.close, descriptor)
            poll.register(descriptor, select.POLLIN)
        poll.poll(max(0.0, timeout_s) * 1000)


def session(pid: int) -> int | None:
    """Return the session of a process; None if it is gone."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


def _listed(thread: int) -> list[int]:
    try:
        with open(_children_file(thread), "rb", 0) as file:  # noqa: PTH123 - after every program
            return [int(pid) for pid in file.read().split()]
    except OSError:  # the thread is gone; or the system has no such file
        return []


def _children_file(thread: int) -> str:
    return f"{_THREADS}/{thread}/children"
