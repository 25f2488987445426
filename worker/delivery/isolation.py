"""Executes a visit that lost workers before in a process of its own, beside all others.

What a node does to its process is then done to nobody else, and proves something: where that
process dies while this worker lives, it is the visit's doing.
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
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.runs.model import Lease
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.scheduler.temporary import scratch
from sleipnir.worker.masking import mask
from sleipnir.worker.sandbox import programs
from sleipnir.worker.sandbox.child_process import GRACE_S
from sleipnir.worker.visit.cancellation import Cancellation
from sleipnir.worker.visit.lease import Leases

logger = logging.getLogger("sleipnir.worker")

# Workers that a visit may lose before it is isolated: one is bad luck, as is running beside the
# visit that killed them.
ISOLATED_AFTER_LOSSES = 2

# How the process says that its end tells nothing of the visit: Redis is away, or a defect of ours.
INCONCLUSIVE = 75
# What it says each second while its interpreter runs, what once it begins with the visit; what
# its template says of it, with its pid and its exit status; what it is told when the visit is ours
# no more.
ALIVE, BEGUN = b"alive", b"begun"
FORKED, ENDED = b"forked %d", b"ended %d"
STOP = b"stop"
BEAT_S = 1.0

_UNTIL_A_SLOT_IS_FREE_S = 1.0
# Importing takes a second; much longer where everything is swapped out.
_START_LIMIT_S = 120.0
_SHORTEST_SILENCE_S = 10.0
# Its programs get their grace period first.
_STOPPING_LIMIT_S = GRACE_S + 3.0
# Whoever ends a whole container ends us as well, this soon.
_COMMON_END_S = 0.5

_LOG_BYTES = 64 * 1024
_LONGEST_LINE = 2_000


@dataclass(frozen=True, slots=True)
class Order:
    """What the process is told: the visit, as its worker has begun it, and how to work."""

    settings: Settings
    lease: Lease
    digest: str
    mark: str  # of the programs that it runs
    temporary: Path  # for its temporary files, which may outlive it
    log_levels: dict[str, int]


class Isolation:
    """The processes for single visits of one worker: at most as many at once as there are cores.

    Args:
        leases: the worker's, which tell whether it is on its way out; then nothing is proved.
    """

    def __init__(self, store: RunStore, leases: Leases) -> None:
        self._store = store
        self._leases = leases
        self._template = _Template()
        self._slots = threading.BoundedSemaphore(max(2, os.cpu_count() or 1))

    def execute(self, lease: Lease, digest: str, cancelled: Cancellation, *, staged: bool) -> None:
        """Have a visit that this worker has begun executed in a process of its own.

        Afterwards it is committed or requeued, or its crash is recorded.

        Raises:
            TransitionRefused: it is not ours any more.
        """
        # One that is staged cannot be requeued; it only advances its step, which is quick.
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
        )
        with scratch("visit") as temporary, _program() as mark:
            order = Order(self._store.settings, lease, digest, mark, Path(temporary), levels)
            with _Process(self._template, order, silence_s) as process:
                return process.wait(cancelled)

    def _record_end(self, lease: Lease, ended: _Ended, cancelled: Cancellation) -> None:
        if ended.how is None:
            self._store.visits.clear_crashes(lease)
        elif not ended.begun:
            # Not the visit's doing; its timer brings it back.
            logger.warning("run %s visit %s: %s", lease.run_id, lease.visit, ended.how)
        elif not cancelled.wait(_COMMON_END_S):
            if self._leases.closed:
                self._store.visits.requeue(lease)
                return
            logger.warning(
                "run %s visit %s took its process down: %s", lease.run_id, lease.visit, ended.how
            )
            self._store.visits.record_crash(lease, ended.how)


@contextmanager
def _program() -> Iterator[str]:
    """The mark of a process; what that leaves behind when it dies comes to this one, and ends."""
    program = programs.begin()
    try:
        yield program.mark
    finally:
        programs.over(program, grace_s=0)


@dataclass(frozen=True, slots=True)
class _Ended:
    """How a process ended; `how` is None if it has seen to its visit."""

    how: str | None
    begun: bool  # it had begun with the visit, and died of that


class _Template:
    """A process with everything imported, which forks one for each visit.

    Not this one: it has threads, and a fork of it could wait for ever for a lock that one holds.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        # Never over: what its forks leave behind ends with their visits.
        self._program: programs.Program | None = None

    def fork(self, channel: int, printed: int) -> None:
        """Have a process forked that talks over `channel` and prints to `printed`.

        Raises:
            OSError: there is no process to do so.
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
                # -P: a directory of the user's that happens to be called `worker` is not ours.
                [sys.executable, "-P", "-m", "sleipnir.worker.delivery.isolated"],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env={**os.environ, programs.MARK: self._program.mark},
                # What a terminal sends is for the worker.
                start_new_session=True,
            )


class _Process:
    """One process for one visit, from its start to its end."""

    def __init__(self, template: _Template, order: Order, silence_s: float) -> None:
        """Start it.

        Raises:
            OSError: it cannot be started.
        """
        self._silence_s = silence_s
        self._pid: int | None = None
        self._begun = False
        self._status: int | None = None
        self._how: str | None = None  # where we have ended it
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
        with suppress(OSError):  # it has ended already, as will be seen
            self._channel.send(order)

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, *_: object) -> None:
        self._kill()
        self._channel.close()

    def wait(self, cancelled: Cancellation) -> _Ended:
        """Wait for its end; bring it about where its visit is cancelled, or it stands still."""
        silent_s = 0.0
        while self._status is None:
            try:
                # Looks are counted, not time: where all stands still, as in a suspended machine,
                # that is one look.
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
        """Have it drop the visit, at first by itself."""
        if self._stop_by is None:
            self._stop_by = monotonic() + _STOPPING_LIMIT_S
            with suppress(OSError):
                self._channel.send_bytes(STOP)
        elif monotonic() >= self._stop_by:
            self._end("it did not stop")

    def _receive(self) -> bool:
        """Whether something is said within a beat: by the process, or by its template of it."""
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
    """Have what a process prints in the worker's log, up to a limit."""
    left = _LOG_BYTES
    with os.fdopen(printed, "rb") as lines:
        while line := lines.readline(_LONGEST_LINE):
            if left > 0:
                text = mask(line.decode(errors="replace").rstrip())
                logger.info("run %s visit %s: %s", lease.run_id, lease.visit, text)
                left -= len(line)


def _exit_text(status: int) -> str:
    """An exit status of a process in words."""
    if status >= 0:
        return f"it exited with status {status}"
    try:
        return f"killed by signal {-status} ({signal.Signals(-status).name})"
    except ValueError:
        return f"killed by signal {-status}"
