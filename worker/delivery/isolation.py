"""Executes a visit that has lost workers in a process of its own.

There it can harm no other visit, and a crash tells who is to blame: if the process dies while this
worker lives, the visit did it.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from sleipnir.records import dataclass
from sleipnir.scheduler.config.masking import mask
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.process.temporary import scratch
from sleipnir.scheduler.runs.model import Lease
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.sandbox import programs
from sleipnir.worker.sandbox.child_process import GRACE_S
from sleipnir.worker.visit.cancellation import Cancellation
from sleipnir.worker.visit.lease import Leases

logger = logging.getLogger("sleipnir.worker")

# Workers a visit may lose before it is isolated: one may be bad luck, such as running alongside the
# visit that killed it.
ISOLATED_AFTER_LOSSES = 2

# Exit status that says nothing about the visit: Redis is unavailable, or there is a bug in the
# engine.
INCONCLUSIVE = 75
# Messages: the process sends `ALIVE` every second while its interpreter runs, and `BEGUN` once it
# begins the visit; its template sends `FORKED` with the pid and `ENDED` with the exit status; the
# worker sends `STOP` when the visit is no longer ours.
ALIVE, BEGUN = b"alive", b"begun"
FORKED, ENDED = b"forked %d", b"ended %d"
STOP = b"stop"
BEAT_S = 1.0

_UNTIL_A_SLOT_IS_FREE_S = 1.0
# Importing takes a second, but much longer on a machine that is swapping.
_START_LIMIT_S = 120.0
_SHORTEST_SILENCE_S = 10.0
# The process first gives its programs their grace period.
_STOPPING_LIMIT_S = GRACE_S + 3.0
# What ends a whole container ends this worker too, within this time.
_CONTAINER_STOPS_S = 0.5

_LOG_BYTES = 64 * 1024
_LONGEST_LINE = 2_000


@dataclass(frozen=True, slots=True)
class Order:
    """What the process is told: the visit its worker has begun, and how to execute it."""

    settings: Settings
    lease: Lease
    digest: str
    mark: str  # of the programs it runs
    temporary: Path  # of its temporary files, which may outlive it
    log_levels: dict[str, int]


class Isolation:
    """One worker's processes for single visits: at most as many at once as there are cores.

    Args:
        leases: the worker's; they tell whether it is stopping, when a crash proves nothing.
    """

    def __init__(self, store: RunStore, leases: Leases) -> None:
        self._store = store
        self._leases = leases
        self._template = _Template()
        self._slots = threading.BoundedSemaphore(max(2, os.cpu_count() or 1))

    def execute(self, lease: Lease, digest: str, cancelled: Cancellation, *, staged: bool) -> None:
        """Execute a visit that this worker has begun in a process of its own.

        Afterwards it is committed or requeued, or its crash is recorded.

        Raises:
            TransitionRefused: the visit is no longer ours.
        """
        # A staged visit cannot be requeued; it only advances its step, which is quick.
        if not self._slots.acquire(blocking=staged):
            self._store.visits.requeue(lease, _UNTIL_A_SLOT_IS_FREE_S)
            return
        try:
            ended = self._run(lease, digest, cancelled)
        except OSError as error:
            ended = _Ended(f"no process can be started: {error}", begun=False)
        finally:
            self._slots.release()
        self._record_end(lease, ended, cancelled)

    def _run(self, lease: Lease, digest: str, cancelled: Cancellation) -> _Ended:
        names = ("", "sleipnir.graph")
        levels = {name: logging.getLogger(name).getEffectiveLevel() for name in names}
        silence_s = max(_SHORTEST_SILENCE_S, 2 * self._store.settings.lease_s)
        logger.info(
            "run %s visit %s lost its workers before: executed in a process of its own",
            lease.run_id,
            lease.visit,
            extra=_said(lease),
        )
        with scratch("visit") as temporary, _program() as mark:
            order = Order(self._store.settings, lease, digest, mark, Path(temporary), levels)
            with _Process(self._template, order, silence_s) as process:
                return process.wait(cancelled)

    def _record_end(self, lease: Lease, ended: _Ended, cancelled: Cancellation) -> None:
        if ended.how is None:
            self._store.visits.clear_crashes(lease)
        elif not ended.begun:
            # Not the visit's doing; its timer will redeliver it.
            logger.warning(
                "run %s visit %s: %s", lease.run_id, lease.visit, ended.how, extra=_said(lease)
            )
        elif not cancelled.wait(_CONTAINER_STOPS_S):
            if self._leases.closed:
                self._store.visits.requeue(lease)
                return
            logger.warning(
                "run %s visit %s took its process down: %s",
                lease.run_id,
                lease.visit,
                ended.how,
                extra=_said(lease),
            )
            self._store.visits.record_crash(lease, ended.how)


def _said(lease: Lease) -> dict[str, str]:
    """Return what lines of the log say about a visit that another process executes."""
    return {"run_id": lease.run_id, "visit": lease.visit}


@contextmanager
def _program() -> Iterator[str]:
    """Yield the mark of a process; programs it leaves behind are ended on exit."""
    program = programs.begin()
    try:
        yield program.mark
    finally:
        programs.over(program, grace_s=0)


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a process ended; `how` is None if it handled its visit."""

    how: str | None
    begun: bool  # it had begun the visit, so a crash counts against it


class _Template:
    """A process with everything imported, which forks one process per visit.

    The worker itself has threads: a fork of it could wait forever for a lock that one of them
    holds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        # Never ended: what its forks leave behind ends with their visits.
        self._program: programs.Program | None = None

    def fork(self, channel: int, printed: int) -> None:
        """Ask the template process for a fork that talks over `channel` and prints to `printed`.

        Raises:
            OSError: the template process cannot be started or reached.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._requests is not None
            socket.send_fds(self._requests, [b"+"], [channel, printed])

    def _start(self) -> None:
        if self._requests is not None:
            self._requests.close()
        self._requests, theirs = socket.socketpair()
        if self._program is None:
            self._program = programs.begin()
        with theirs:
            self._process = subprocess.Popen(
                # -P: do not import a directory of the user's that happens to be called `sleipnir`.
                [sys.executable, "-P", "-m", "sleipnir.worker.delivery.isolated"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, programs.MARK: self._program.mark},
                # Signals of the terminal are for the worker only.
                start_new_session=True,
            )


class _Process:
    """One process for one visit, from start to exit."""

    def __init__(self, template: _Template, order: Order, silence_s: float) -> None:
        """Start the process.

        Raises:
            OSError: it cannot be started.
        """
        self._silence_s = silence_s
        self._pid: int | None = None
        self._begun = False
        self._status: int | None = None
        self._how: str | None = None  # set if this worker killed it
        self._stop_by: float | None = None
        self._channel, theirs = multiprocessing.Pipe()
        printed, writing = os.pipe()
        log = threading.Thread(target=_forward_output, args=(printed, order.lease), daemon=True)
        log.start()
        try:
            with theirs:
                template.fork(theirs.fileno(), writing)
        finally:
            os.close(writing)
        with suppress(OSError):  # it has exited already, which `wait` will notice
            self._channel.send(order)

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self._channel.close()

    def wait(self, cancelled: Cancellation) -> _Ended:
        """Wait for its exit; stop it if the visit is cancelled, kill it if it does not respond."""
        silent_s = 0.0
        while self._status is None:
            try:
                # Beats are counted rather than time, as a suspended machine then counts as one
                # beat.
                silent_s = 0.0 if self._receive() else silent_s + BEAT_S
            except (EOFError, OSError):
                return _Ended("its exit status is unknown", begun=False)
            if self._pid is None and silent_s >= _START_LIMIT_S:
                return _Ended("it could not be forked", begun=False)
            if silent_s >= (self._silence_s if self._begun else _START_LIMIT_S):
                self._end(f"it did not respond for {silent_s:.0f} s")
            if cancelled.is_set():
                self._stop()
        if self._status == 0:
            return _Ended(None, self._begun)
        return _Ended(
            self._how or _exit_text(self._status), self._begun and self._status != INCONCLUSIVE
        )

    def _stop(self) -> None:
        """Tell it to drop the visit; kill it if it has not done so in time."""
        if self._stop_by is None:
            self._stop_by = monotonic() + _STOPPING_LIMIT_S
            with suppress(OSError):
                self._channel.send_bytes(STOP)
        elif monotonic() >= self._stop_by:
            self._end("it did not stop")

    def _receive(self) -> bool:
        """Wait for a beat; return whether the process or its template has sent anything."""
        if not self._channel.poll(BEAT_S):
            return False
        word, _, number = self._channel.recv_bytes().partition(b" ")
        match word:
            case b"forked":
                self._pid = int(number)
            case b"begun":
                self._begun = True
            case b"ended":
                self._status = int(number)
        return True

    def _end(self, how: str) -> None:
        self._how = self._how or how
        self._kill()

    def _kill(self) -> None:
        if self._pid is not None and self._status is None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def _forward_output(printed: int, lease: Lease) -> None:
    """Forward what a process prints to the worker's log, up to a limit."""
    left, said = _LOG_BYTES, _said(lease)
    with os.fdopen(printed, "rb") as lines:
        while line := lines.readline(_LONGEST_LINE):
            if left > 0:
                text = mask(line.decode(errors="replace").rstrip())
                logger.info("run %s visit %s: %s", lease.run_id, lease.visit, text, extra=said)
                left -= len(line)


def _exit_text(status: int) -> str:
    """Return an exit status in words."""
    if status >= 0:
        return f"it exited with status {status}"
    try:
        return f"killed by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"killed by signal {-status}"
