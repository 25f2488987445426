"""The embedded engine's own process: a private Redis and workers, kept while commands use them.

`python -m sleipnir.scheduler.embedded.process DATA_DIR`, started by `attach`. Each command holds a
connection to it, which the kernel closes however the command dies; when the last one is gone, the
engine drains and stops. A command sends one line, its `EngineRequest`; the engine answers with one
line: `ready`, or `failed` and why. It sends `stopping` before it stops, so a connection that
breaks without this message means that the engine was killed.

While its Redis cannot write its data, the engine does not stop: the last command is told why
(`stays`) and released, and the engine stops once everything is written.

Standard library only: the start of every command waits for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import monotonic

from sleipnir.scheduler.embedded.append_only import unwritten
from sleipnir.scheduler.embedded.directory_format import require_format_of
from sleipnir.scheduler.embedded.place import MAX_WAIT_S, Engine, EngineRequest, Place, lock
from sleipnir.scheduler.embedded.redis_server import PrivateRedis, socket_directory
from sleipnir.scheduler.embedded.supervisor import ChildProcess, Supervisor, say
from sleipnir.scheduler.errors import EngineUnreachable
from sleipnir.scheduler.process.periodic import pause

# What a worker needs after its drain to close its files.
DRAIN_MARGIN_S = 5.0
# How often an engine that cannot stop checks whether it can.
_LOOKS_AGAIN_S = 1.0
# Beyond this size the log is rotated to `engine.log.1`; it is checked this often.
LOG_BYTES = 8 * 1024 * 1024
_LOG_LOOK_S = 2.0
_REDIS = "redis"
# How long the server of a killed engine gets to exit.
LEFTOVER_S = 10.0


def rotate(log_file: Path, limit_bytes: int = LOG_BYTES) -> None:
    """Rotate a log that is too large: keep its end as the only older log.

    All processes of the engine have it open for appending, so it is truncated, not replaced.
    """
    with contextlib.suppress(OSError):  # somebody removed it, or the disk is full
        size = log_file.stat().st_size
        if size <= limit_bytes:
            return
        try:
            with log_file.open("rb") as log:
                log.seek(size - limit_bytes)
                end = log.read(limit_bytes)
            aside = log_file.with_name(f"{log_file.name}.1")
            aside.touch(mode=0o600)
            aside.write_bytes(end)
        finally:
            os.truncate(log_file, 0)


def worker_children(redis_url: str, request: EngineRequest) -> list[ChildProcess]:
    """Return the worker processes of one machine; the first one also runs the scheduler."""
    # -P: don't import from a user's directory that happens to be called `worker`.
    command = [sys.executable, "-P", "-m", "sleipnir.worker", "--redis", redis_url]
    command += ["--concurrency", str(request.concurrency)]
    command += ["--verbose"] * request.verbosity or ["--quiet"]
    return [
        ChildProcess(
            f"worker {n}",
            [*command, "--scheduler"] if n == 1 else command,
            env=request.environment,
        )
        for n in range(1, request.workers + 1)
    ]


class EngineProcess:
    """Redis, workers, and the commands that use them."""

    def __init__(self, place: Place, engine_lock: int) -> None:
        sockets = socket_directory(place.data_dir)
        self._place = place
        self._locks = [engine_lock]
        self._redis = PrivateRedis(place.redis_directory, sockets / "redis.sock", place.log_file)
        self._control = sockets / "control.sock"
        self._door = socket.socket(socket.AF_UNIX)
        self._users: dict[socket.socket, bytearray] = {}
        # Whether it runs on without users, as `sleipnir up` does.
        self._stays = False
        self._closing = False
        self._redis_restarts = False  # to recreate its socket
        self._data_removed = ""  # what happened to the data directory, if removed
        self._supervisor = Supervisor(grace_s=DRAIN_MARGIN_S, adopts=True)

    def start(self) -> Engine:
        """Start Redis and listen for commands; return once both are ready.

        Raises:
            EngineUnreachable: no Redis can be started.
        """
        try:
            engine = self._record_engine()
            self._start_redis()
            self._listen()
            self._supervisor.call_in(_LOOKS_AGAIN_S, self._check_files)
        except BaseException as error:
            self.abandon()
            if isinstance(error, OSError):
                raise EngineUnreachable(f"the embedded engine cannot start: {error}") from error
            raise
        return engine

    def admit(self, user: socket.socket) -> None:
        """Serve a connected command until it disconnects."""
        self._users[user] = bytearray()
        self._supervisor.watch(user, partial(self._read_request, user))

    def bound_log(self) -> None:
        """Rotate the log regularly for as long as `serve` runs."""
        rotate(self._place.log_file)
        self._supervisor.call_in(_LOG_LOOK_S, self.bound_log)

    def stay(self, request: EngineRequest, companions: Sequence[ChildProcess]) -> None:
        """Run what `request` asks for, and `companions`, until a signal, even without users."""
        self._stays = True
        self.bound_log()
        self._provide(request)
        for companion in companions:
            self._supervisor.start(companion)

    def serve(self) -> None:
        """Run until no user is left or a signal arrives; return when all children have ended.

        Raises:
            EngineUnreachable: it stopped because its data directory was removed.
        """
        self._supervisor.run(on_stopping=self._stop_listening)
        # A server that was killed or failed to start leaves its socket.
        self._redis.socket_file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._control.parent.rmdir()
        for descriptor in self._locks:
            os.close(descriptor)
        # Last: leaving commands wait for this.
        for user in self._users:
            user.close()
        if self._data_removed:
            raise EngineUnreachable(f"{self._data_removed}; what it held is lost")

    def abandon(self) -> None:
        """Stop everything after a failed start."""
        self._supervisor.stop()
        self.serve()

    def _record_engine(self) -> Engine:
        engine = Engine(os.getpid(), self._redis.url, self._redis.broker_url, self._place.log_file)
        record = {
            "pid": engine.pid,
            "url": engine.redis_url,
            "broker_url": engine.broker_url,
            "control": str(self._control),
        }
        os.ftruncate(self._locks[0], 0)
        os.pwrite(self._locks[0], json.dumps(record).encode(), 0)
        return engine

    def _start_redis(self) -> None:
        self._redis.directory.mkdir(mode=0o700, exist_ok=True)
        data_lock = self._lock_data()
        self._locks.append(data_lock)
        require_format_of(self._redis.directory)
        server = ChildProcess(
            _REDIS,
            self._redis.command_line(self._redis.find_program()),
            umask=0o077,
            pass_fds=(data_lock,),
            # If we are killed, this lets it save its data and exit by itself.
            death_signal=signal.SIGTERM,
            farewell=self._shut_down_redis,
            outlives_others=True,
            holds_back=lambda: unwritten(self._redis),
        )
        self._redis.await_ready(self._supervisor.start(server))

    def _shut_down_redis(self) -> None:
        if why := unwritten(self._redis):  # a second signal forced the stop
            self._place.note_loss(why)
        self._redis.shut_down()

    def _lock_data(self) -> int:
        """Take the lock shared with the server; stop the server of a killed engine first."""
        deadline = monotonic() + LEFTOVER_S
        while monotonic() < deadline:
            try:
                return lock(self._place.redis_lock, wait=False)
            except BlockingIOError:
                self._redis.shut_down()
                pause(0.01)
        raise EngineUnreachable(
            f"a Redis server of an earlier engine is still running on {self._redis.directory} "
            f"and does not stop; kill the process that holds {self._place.redis_lock}"
        )

    def _listen(self) -> None:
        self._control.unlink(missing_ok=True)
        self._door.bind(str(self._control))
        self._door.listen(64)
        self._supervisor.watch(self._door, lambda: self.admit(self._door.accept()[0]))

    def _check_files(self) -> None:
        if self._closing:
            return
        if self._has_lost_data():
            # Other commands would start a second engine, unaware of this one.
            self._data_removed = (
                f"the data directory {self._place.data_dir} was removed or replaced"
            )
            say(f"{self._data_removed}; stopping")
            self._supervisor.stop()
            return
        self._recreate_sockets()
        self._supervisor.call_in(_LOOKS_AGAIN_S, self._check_files)

    def _has_lost_data(self) -> bool:
        try:
            found = self._place.engine_lock.stat()
        except FileNotFoundError:
            return True
        except OSError:  # a file system that is temporarily unavailable
            return False
        return not os.path.samestat(found, os.fstat(self._locks[0]))

    def _recreate_sockets(self) -> None:
        """Recreate sockets that were removed, for example by a cleaner of temporary files."""
        with contextlib.suppress(EngineUnreachable, OSError):  # retried at the next check
            socket_directory(self._place.data_dir)
            if not self._control.exists():
                say("the socket directory was removed; recreating it")
                self._supervisor.unwatch(self._door)
                self._door.close()
                self._door = socket.socket(socket.AF_UNIX)
                self._listen()
            if self._redis.socket_file.exists():
                self._redis_restarts = False
            elif not self._redis_restarts:
                # A running server cannot be told to listen again.
                self._redis_restarts = True
                self._supervisor.restart(_REDIS)

    def _stop_listening(self) -> None:
        self._closing = True
        if self._door.getsockname():
            self._supervisor.unwatch(self._door)
            self._control.unlink(missing_ok=True)
        self._door.close()
        for user in self._users:
            _tell(user, stopping=True)

    def _read_request(self, user: socket.socket) -> None:
        try:
            part = user.recv(65536)
        except OSError:
            part = b""
        if not part:
            self._remove_user(user)
            return
        heard = self._users[user]
        heard += part
        if heard.endswith(b"\n"):
            try:
                request = EngineRequest(**json.loads(heard))
                # `up` has the workers and the environment that its user wanted: workers for other
                # commands would outlive these, and execute what others submit.
                if not self._stays:
                    self._provide(request)
                _tell(user, ready=True)
            except (OSError, ValueError, TypeError) as error:
                # Only this command fails; others are not affected.
                _tell(user, failed=f"the engine cannot handle the request: {error}")
            heard.clear()

    def _provide(self, request: EngineRequest) -> None:
        """Start the requested workers that are not running yet."""
        supervisor = self._supervisor
        supervisor.grace_s = max(supervisor.grace_s, request.drain_s + DRAIN_MARGIN_S)
        for worker in worker_children(self._redis.url, request):
            supervisor.start(worker)

    def _remove_user(self, user: socket.socket) -> None:
        self._supervisor.unwatch(user)
        if self._stays or len(self._users) > 1:
            self._release_user(user)
        elif why := unwritten(self._redis):
            _tell(user, stays=f"the engine (pid {os.getpid()}) cannot stop yet: {why}")
            self._release_user(user)
            self._supervisor.call_in(_LOOKS_AGAIN_S, self._end_when_written)
        else:
            # Its connection stays open until everything has stopped.
            self._supervisor.stop()

    def _release_user(self, user: socket.socket) -> None:
        del self._users[user]
        user.close()

    def _end_when_written(self) -> None:
        """Stop once everything is written, unless there are users again."""
        if self._users:
            return
        if unwritten(self._redis):
            self._supervisor.call_in(_LOOKS_AGAIN_S, self._end_when_written)
        else:
            self._supervisor.stop()


def _tell(user: socket.socket, **message: object) -> None:
    with contextlib.suppress(OSError):  # it has died, which the closed connection reports
        user.sendall(json.dumps(message).encode() + b"\n")


def _main() -> None:
    """Run the background engine; its standard input is the connection of its first user."""
    if os.fork():
        os._exit(0)  # the daemon has no parent that must wait for it
    user = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    place = Place(Path(sys.argv[1]))
    # A stopping engine gets its time, but not one that hangs.
    signal.alarm(int(MAX_WAIT_S))
    try:
        engine_lock = lock(place.engine_lock, wait=True)
        signal.alarm(0)
        os.ftruncate(sys.stderr.fileno(), 0)
        process = EngineProcess(place, engine_lock)
        process.start()
    except (EngineUnreachable, OSError) as error:
        _tell(user, failed=str(error))
        return
    process.admit(user)
    process.bound_log()
    with contextlib.suppress(EngineUnreachable):  # the log says why
        process.serve()
    # Skip the interpreter's slow shutdown; the last command has been released.
    os._exit(0)


if __name__ == "__main__":
    _main()
