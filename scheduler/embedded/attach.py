"""How commands use the embedded engine: they join the one of the data directory, or start it.

The last command to leave stops the engine, once its data is written; `sleipnir up` runs the same
engine in the foreground. The other end of the connection, and its messages, are in
`sleipnir.scheduler.embedded.process`.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.embedded.place import MAX_WAIT_S, Engine, EngineRequest, Place, lock
from sleipnir.scheduler.errors import EngineUnreachable, Terminated
from sleipnir.scheduler.process.periodic import pause

# Not needed by commands that find their engine running.
with lazy_imports():
    from sleipnir.scheduler.embedded import process as engine_process
    from sleipnir.scheduler.embedded import supervisor

if TYPE_CHECKING:
    from sleipnir.scheduler.embedded.supervisor import ChildProcess

__all__ = ["Engine", "EngineSettings", "attach", "run_foreground"]

# How long a running engine may take to answer on a very busy machine.
ANSWER_S = 20.0

# How long it may take to notice that its sockets were removed, and to recreate them.
SOCKETS_BACK_S = 10.0

LOG_TAIL_LINES = 15


class EngineSettings(Protocol):
    """The settings that an engine is started with."""

    @property
    def workers(self) -> int: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def drain_s(self) -> float: ...


@contextlib.contextmanager
def attach(
    data_dir: Path, settings: EngineSettings, *, workers: bool, processes: int | None = None
) -> Iterator[Engine]:
    """Use the engine of `data_dir`, starting it if none runs there; the last command stops it.

    With `workers`, `processes` of them are started unless they are running already. An engine that
    is killed meanwhile is restarted on the same URLs.

    Raises:
        EngineUnreachable: there is none, and none can be started.
    """
    count = _worker_count(settings, processes) if workers else 0
    attachment = _Attachment(Place.of(data_dir), _request(settings, count))
    engine = attachment.open()
    try:
        yield engine
    except Terminated:
        attachment.close(waits=False)  # whoever sent the signal does not wait either
        raise
    except BaseException:
        attachment.close()
        raise
    attachment.close()


def run_foreground(
    data_dir: Path,
    settings: EngineSettings,
    *,
    processes: int | None = None,
    verbosity: int = 0,
    companions: Callable[[Engine], Sequence[ChildProcess]] = lambda _engine: (),
) -> None:
    """Run the engine of `data_dir` until SIGTERM or Ctrl-C; a second Ctrl-C kills it.

    `companions` is called once Redis answers; the processes it returns run beside the workers.

    Raises:
        EngineUnreachable: an engine is running there already, or none can be started.
    """
    place = Place.of(data_dir)
    with _locked(place.start_lock):
        try:
            engine_lock = lock(place.engine_lock, wait=False)
        except BlockingIOError:
            raise EngineUnreachable(
                f"an engine{_pid(place)} is already running in {place.data_dir}; "
                "it stops with the last command that uses it: wait for that, or stop it"
            ) from None
        process = engine_process.EngineProcess(place, engine_lock)
        engine = process.start()
    try:
        request = _request(settings, _worker_count(settings, processes), verbosity)
        process.stay(request, companions(engine))
    except BaseException:
        process.abandon()
        raise
    process.serve()


def _worker_count(settings: EngineSettings, processes: int | None) -> int:
    return processes or settings.workers or 1


def _request(settings: EngineSettings, workers: int, verbosity: int = 0) -> EngineRequest:
    return EngineRequest(
        workers, settings.concurrency, settings.drain_s, dict(os.environ), verbosity
    )


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    descriptor = lock(file, wait=True)
    try:
        yield
    finally:
        os.close(descriptor)


class _Attachment:
    """One command's connection to the engine, which runs as long as any is open."""

    def __init__(self, place: Place, request: EngineRequest) -> None:
        self._place = place
        self._request = json.dumps(asdict(request)).encode() + b"\n"
        self._connection = socket.socket(socket.AF_UNIX)
        self._leaving = False
        self._last_words: dict[str, Any] = {}
        # Held while the connection is replaced or closed.
        self._changing = threading.Lock()
        self._follower = threading.Thread(target=self._follow, daemon=True)

    def open(self) -> Engine:
        """Join the engine, or start it."""
        engine = self._connect()
        self._follower.start()
        return engine

    def close(self, *, waits: bool = True) -> None:
        """Leave; return when the engine has let us go, which is at its end if we were the last."""
        with self._changing:
            self._leaving = True
            with contextlib.suppress(OSError):  # the engine was killed
                self._connection.shutdown(socket.SHUT_WR)
        if not waits:
            return  # the kernel closes the connection when we exit
        self._follower.join()
        self._connection.close()
        if "stays" in self._last_words:
            supervisor.say(self._last_words["stays"])

    def _connect(self) -> Engine:
        try:
            with _locked(self._place.start_lock):
                # The second start is for an engine that was killed right after the first.
                if not (self._join_in_time() or self._start() or self._start()):
                    raise self._unreachable("the embedded engine did not start")
                engine, _ = self._place.recorded_engine() or (None, None)
        except BaseException:
            self._connection.close()
            raise
        assert engine is not None  # it records itself before it is ready
        return engine

    def _join_in_time(self) -> bool:
        """Join; wait while a running engine recreates lost sockets."""
        deadline = monotonic() + SOCKETS_BACK_S
        while not self._join():
            if not self._is_running() or monotonic() > deadline:
                return False
            pause(0.02)
        return True

    def _is_running(self) -> bool:
        try:
            os.close(lock(self._place.engine_lock, wait=False))
        except BlockingIOError:
            return True
        return False

    def _join(self) -> bool:
        """Connect to the recorded engine; return False if it is not there or about to stop."""
        found = self._place.recorded_engine()
        if found is None:
            return False
        self._connection.close()
        self._connection = socket.socket(socket.AF_UNIX)
        try:
            self._connection.connect(str(found[1]))
        except OSError:
            return False
        return self._ask(ANSWER_S)

    def _start(self) -> bool:
        """Start an engine with us as its first user, so that it is never without one."""
        self._connection.close()
        self._connection, engines_end = socket.socketpair()
        log = os.open(self._place.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # Returns soon: the engine daemonizes itself.
            subprocess.run(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "sleipnir.scheduler.embedded.process",
                    self._place.data_dir,
                ],
                stdin=engines_end.fileno(),
                stdout=log,
                stderr=log,
                start_new_session=True,
                check=False,
            )
        finally:
            os.close(log)
            engines_end.close()
        return self._ask(MAX_WAIT_S)

    def _ask(self, max_wait_s: float) -> bool:
        """Send the request; return True once it is met, False if the engine stops instead."""
        self._connection.settimeout(max_wait_s)
        try:
            # An engine that failed to start may have said why and exited before this.
            with contextlib.suppress(BrokenPipeError):
                self._connection.sendall(self._request)
            answer = _receive(self._connection)
        except ConnectionError:
            return False
        except TimeoutError as error:
            raise self._unreachable(
                f"the embedded engine{_pid(self._place)} in {self._place.data_dir} did not answer "
                f"within {max_wait_s:.0f} s; stop it and try again"
            ) from error
        self._connection.settimeout(None)
        if answer and "failed" in answer:
            raise self._unreachable(answer["failed"])
        return bool(answer and "ready" in answer)

    def _unreachable(self, why: str) -> EngineUnreachable:
        """Return the error, with the end of the engine's log if there is one."""
        log_file = self._place.log_file
        try:
            lines = log_file.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        except FileNotFoundError:  # a foreground engine has no log
            lines = []
        return EngineUnreachable(
            "\n".join((f"{why}; {log_file} ends with:", *lines)) if lines else why
        )

    def _follow(self) -> None:
        """Wait until the connection closes; if the engine was killed, start it again."""
        pauses, began_at = supervisor.Pauses(), monotonic()
        while self._was_killed():
            # Keeps an engine that always dies at once from being restarted in a busy loop.
            pause(pauses.after(monotonic() - began_at))
            began_at = monotonic()
            with self._changing:
                if self._leaving:
                    return
                try:
                    self._connect()
                except (EngineUnreachable, OSError):
                    return  # callers notice when they use Redis

    def _was_killed(self) -> bool:
        """Wait until the connection closes; return whether that was without a last message."""
        self._last_words = {}
        with contextlib.suppress(ConnectionError):
            while (words := _receive(self._connection)) is not None:
                self._last_words = words
        return not self._last_words and not self._leaving


def _receive(connection: socket.socket) -> dict[str, Any] | None:
    """Return the next message; None if the other side has closed."""
    with connection.makefile("rb", buffering=0) as lines:
        line = lines.readline()
    return json.loads(line) if line.endswith(b"\n") else None


def _pid(place: Place) -> str:
    found = place.recorded_engine()
    return f" (pid {found[0].pid})" if found else ""
