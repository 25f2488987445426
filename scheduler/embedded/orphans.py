"""Adopts descendant processes whose parent has died, and ends them.

Linux only: elsewhere they become children of the system's first process, out of reach. Standard
library only, like the supervisor that calls it.
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

# SIGKILL acts at once, except on processes that the kernel is busy with.
KILL_LIMIT_S = 5.0

_PR_SET_CHILD_SUBREAPER = 36
_THREADS = "/proc/self/task"


def adopt() -> bool:
    """Become the parent of orphaned descendants; return whether the system supports that."""
    if sys.platform != "linux" or not Path(_children_file(os.getpid())).exists():
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0)


def adopted() -> list[int]:
    """Return adopted children, and those that the main thread has started.

    Reads one small file: adopted children belong to the main thread.
    """
    return _listed(os.getpid())


def children() -> list[int]:
    """Return all children, whichever thread has started them."""
    threads = os.listdir(_THREADS)  # noqa: PTH208 - names are all that is needed
    return [pid for thread in threads for pid in _listed(int(thread))]


def end_children(known: Collection[int] = (), *, limit_s: float = KILL_LIMIT_S) -> None:
    """Kill all children except those `known`, then the orphans they leave, until none is left.

    Children in our own session belong to us, not to an agent: they end with us.
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
    """Reap a child; return whether it has ended."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def tell(pid: int, number: signal.Signals) -> None:
    """Send a signal to a child, which may have ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def wait_for_one(pids: Iterable[int], timeout_s: float) -> None:
    """Wait until one of the children ends, `timeout_s` at most."""
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
