"""Runs a child process: own process group, filtered environment, bounded time and output.

This does not contain hostile code: an agent's scripts run with the worker's rights.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from time import monotonic
from typing import IO

from sleipnir.records import dataclass
from sleipnir.scheduler.config.program_environment import is_passed_on
from sleipnir.worker.sandbox import programs
from sleipnir.worker.sandbox.limits import NO_LIMITS, ProgramLimits
from sleipnir.worker.visit.cancellation import Cancellation

# Set if the engine lets the fetcher of tools and scripts access private addresses.
ALLOW_PRIVATE_ADDRESSES = "LLM_ALLOW_PRIVATE_ADDRESSES"

# Time between SIGTERM and SIGKILL.
GRACE_S = 2.0

# A pipe holds at most this; anything beyond it was written after the program had exited.
_PIPE_BYTES = 1024 * 1024

# How much of the beginning of stderr is kept if it exceeds the limit.
_HEAD_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class Finished:
    """How a process ended, and what it printed, up to the limit."""

    returncode: int  # negative: killed by that signal
    stdout: bytes
    stderr: bytes  # its end only, if it exceeded the limit
    stderr_cut: bool = False
    stderr_head: bytes = b""  # its beginning, if that is not in `stderr`
    timed_out: bool = False
    too_large: bool = False  # stdout exceeded the limit, so the group was ended
    exceeded: str | None = None  # the limit that it exceeded, in words

    @property
    def said(self) -> bytes:
        """Return stderr; both of its ends if it exceeded the limit."""
        gap = b"\n[more was left out]\n" if self.stderr_cut else b""
        return self.stderr_head + gap + self.stderr


def base_environment(more_names: Iterable[str] = ()) -> dict[str, str]:
    """Return the part of the worker's environment that agents' programs may see."""
    more = frozenset(more_names)
    return {name: value for name, value in os.environ.items() if is_passed_on(name, more)}


def run_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    workdir: Path,
    timeout_s: float | None,
    output_limit_bytes: int,
    cancellation: Cancellation,
    limits: ProgramLimits = NO_LIMITS,
    on_stdout: Callable[[bytes], None] | None = None,
    grace_s: float | None = None,
) -> Finished:
    """Run a program until it exits, and end it together with everything it has started.

    It is ended at `timeout_s`, when stdout exceeds the limit, and when the cancellation is set.
    `on_stdout` receives the output as it comes; then stdout has no limit.

    Raises:
        OSError: it cannot be started; with limits, it ends with 126 or 127 and says why.
    """
    deadline = None if timeout_s is None else monotonic() + timeout_s
    grace_s = GRACE_S if grace_s is None else grace_s
    stdout = _Head(output_limit_bytes, on_stdout)
    stderr = _Tail(output_limit_bytes)
    with _started(limits.imposed_on(command), environment, workdir, grace_s) as process:
        group = _Group(process, grace_s)
        with process, cancellation.calling(group.cancel):
            try:
                timed_out = _collect(process, deadline, stdout, stderr)
            finally:  # even if `on_stdout` raised
                group.end()
                returncode = group.wait()
    return Finished(
        returncode,
        bytes(stdout.kept),
        bytes(stderr.kept),
        stderr_cut=stderr.cut,
        stderr_head=bytes(stderr.head) if stderr.cut else b"",
        timed_out=timed_out,
        too_large=stdout.cut,
        exceeded=limits.exceeded(returncode, bytes(stderr.kept)),
    )


def run_at_terminal(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    workdir: Path,
    timeout_s: float | None,
) -> Finished:
    """Run a program that may talk to the person at this terminal; Ctrl-C ends both.

    Its output goes to the terminal and is not kept.

    Raises:
        OSError: it cannot be started.
    """
    try:
        done = subprocess.run(
            command,
            stdout=sys.stderr.fileno(),
            env=environment,
            cwd=workdir,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finished(-signal.SIGKILL, b"", b"", timed_out=True)
    return Finished(done.returncode, b"", b"")


@contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str], workdir: Path, grace_s: float
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program in a session of its own; what it leaves behind is ended after the block."""
    program = programs.begin()
    try:
        yield subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**environment, programs.MARK: program.mark},
            cwd=workdir,
            start_new_session=True,
        )
    finally:
        programs.over(program, grace_s)


class _Group:
    """The process group of a child: SIGTERM first, SIGKILL after the grace period."""

    def __init__(self, process: subprocess.Popen[bytes], grace_s: float) -> None:
        self._process = process
        self._grace_s = grace_s
        self._lock = threading.Lock()
        self._gone = False  # if set, its id may belong to another group

    def end(self) -> None:
        """Send SIGTERM to the whole group."""
        self._signal(signal.SIGTERM)

    def cancel(self) -> None:
        """End the group, by force if needed, while another thread still collects its output."""
        self.end()
        killing = threading.Timer(self._grace_s, self._signal, (signal.SIGKILL,))
        killing.daemon = True
        killing.start()

    def wait(self) -> int:
        """Wait for the child; kill the group if it ignores SIGTERM."""
        try:
            return self._process.wait(self._grace_s)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            return self._process.wait()
        finally:
            # Kill what the child has left behind in its group.
            self._signal(signal.SIGKILL)
            self._gone = True

    def _signal(self, number: int) -> None:
        with self._lock:
            if self._gone:
                return
            try:
                os.killpg(self._process.pid, number)
            except (ProcessLookupError, PermissionError):
                return


@dataclass(slots=True)
class _Head:
    """The first bytes of a stream; none with `instead`, which receives everything."""

    limit: int
    instead: Callable[[bytes], None] | None = None
    kept: bytearray = field(default_factory=bytearray)
    cut: bool = False

    def take(self, chunk: bytes) -> None:
        if self.instead is not None:
            self.instead(chunk)
            return
        self.kept += chunk
        if len(self.kept) > self.limit:
            del self.kept[self.limit :]
            self.cut = True


@dataclass(slots=True)
class _Tail:
    """The last bytes of a stream, and its first ones."""

    limit: int
    cut: bool = False
    head: bytearray = field(default_factory=bytearray)
    _buffer: bytearray = field(default_factory=bytearray)

    @property
    def kept(self) -> bytearray:
        self._keep(self.limit)
        return self._buffer

    def take(self, chunk: bytes) -> None:
        self.head += chunk[: _HEAD_BYTES - len(self.head)]
        self._buffer += chunk
        # cut at twice the limit only: each cut moves everything that is kept
        self._keep(2 * self.limit)

    def _keep(self, most: int) -> None:
        if len(self._buffer) > most:
            del self._buffer[: -self.limit]
            self.cut = True


def _collect(
    process: subprocess.Popen[bytes], deadline: float | None, stdout: _Head, stderr: _Tail
) -> bool:
    """Read both streams until the child exits or reaches a limit; return whether it timed out."""
    assert process.stdout is not None
    assert process.stderr is not None
    exited = os.pidfd_open(process.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ, stdout)
            selector.register(process.stderr, selectors.EVENT_READ, stderr)
            selector.register(exited, selectors.EVENT_READ, None)
            while not stdout.cut:
                left = None if deadline is None else deadline - monotonic()
                events = selector.select(left) if left is None or left > 0 else []
                if not events:
                    return True
                for key, _ in events:
                    if key.data is not None and not _read_into(key.data, key.fd):
                        selector.unregister(key.fileobj)
                if any(key.data is None for key, _ in events):
                    break
    finally:
        os.close(exited)
    for stream, kept in ((process.stdout, stdout), (process.stderr, stderr)):
        _drain(stream, kept)
    return False


def _read_into(kept: _Head | _Tail, stream: int) -> int:
    """Read what is available; return 0 at the end of the stream."""
    chunk = os.read(stream, 65536)
    kept.take(chunk)
    return len(chunk)


def _drain(stream: IO[bytes], kept: _Head | _Tail) -> None:
    """Read what an exited child left in a pipe, without waiting for its descendants."""
    os.set_blocking(stream.fileno(), False)
    left = _PIPE_BYTES
    try:
        while left > 0 and (count := _read_into(kept, stream.fileno())):
            left -= count
    except BlockingIOError:
        pass
