"""Pools of helper processes, for work that might never end: started on demand, reused, killed.

A helper's standard input is a `multiprocessing.connection.Connection`, on which it answers one
question after the other. It limits the CPU time of each, so that a busy machine fails nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from typing import Self

# A machine may be busy or swap; a process silent for this much longer than its limit hangs.
_MAX_WAIT_S = 60.0
_MAX_WAIT_FACTOR = 10.0
DEFAULT_SIZE = max(2, os.cpu_count() or 1)


class HelperDied(Exception):
    """The process exited instead of answering; `status` is its exit status."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(f"its process exited: {status}")

    @property
    def was_late(self) -> bool:
        """Whether the limit of CPU time ended it."""
        return self.status == -signal.SIGPROF


class HelperHangs(Exception):
    """The process was silent for far too long, and was killed."""


class _Helper:
    """One process, used by one thread at a time."""

    def __init__(self, module: str) -> None:
        """Start the process.

        Raises:
            OSError: it cannot be started.
        """
        self._channel, theirs = multiprocessing.Pipe()
        with theirs:
            self._process = subprocess.Popen(
                # -P: don't import from a user's directory that happens to be called `scheduler`.
                [sys.executable, "-P", "-m", module],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # In our session, like everything that ends by itself with us, but not in our
                # group: signals of the terminal are not for it.
                process_group=0,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, question: bytes, limit_s: float) -> bytes:
        try:
            self._channel.send_bytes(question)
            if not self._channel.poll(_MAX_WAIT_S + _MAX_WAIT_FACTOR * limit_s):
                raise HelperHangs
            return self._channel.recv_bytes()
        except (EOFError, OSError) as error:
            self.kill()  # in case it lives on with a broken channel
            raise HelperDied(self._process.wait()) from error

    def kill(self) -> None:
        """End the process at once; whoever waits for its answer gets HelperDied."""
        self._process.kill()

    def end(self) -> None:
        """Kill the process and release what belongs to it."""
        self.kill()
        self._process.wait()
        self._channel.close()


class HelperPool:
    """As many processes as are used at once, up to `size`.

    Args:
        module: what the processes run, as in `python -m`.
    """

    def __init__(self, module: str, size: int = DEFAULT_SIZE) -> None:
        self._module = module
        self._places = threading.BoundedSemaphore(size)
        self._lock = threading.Lock()
        self._idle: list[_Helper] = []
        self._busy: set[_Helper] = set()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, question: bytes, limit_s: float) -> bytes:
        """Return a process's answer to a question; waits while all processes are busy.

        Args:
            limit_s: the CPU time that the process allows itself.

        Raises:
            HelperDied: the process exceeded its limit, or died twice otherwise.
            HelperHangs: it does not answer.
            OSError: no process can be started.
        """
        with self._places:
            try:
                return self._ask(question, limit_s)
            except HelperDied as error:
                if error.was_late or self._is_closed:
                    raise
                return self._ask(question, limit_s)

    def close(self) -> None:
        """Kill all processes, busy ones too."""
        with self._lock:
            self._is_closed = True
            for helper in self._busy:
                helper.kill()
            while self._idle:
                self._idle.pop().end()

    def _ask(self, question: bytes, limit_s: float) -> bytes:
        helper = self._taken()
        try:
            answer = helper.ask(question, limit_s)
        except BaseException:
            with self._lock:
                self._busy.discard(helper)
            helper.end()
            raise
        with self._lock:
            self._busy.discard(helper)
            if not self._is_closed:
                self._idle.append(helper)
                return answer
        helper.end()
        return answer

    def _taken(self) -> _Helper:
        with self._lock:
            helper = self._idle.pop() if self._idle else None
        helper = helper or _Helper(self._module)
        with self._lock:
            self._busy.add(helper)
        return helper
