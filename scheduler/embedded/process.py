"""The embedded engine's own process: a private Redis and its workers, kept while they are used.

`python -m sleipnir.scheduler.embedded.process DATA_DIR`, started by `attach`. A command holds a
connection to it, which the kernel closes however the command dies; when the last one is gone the
engine drains and ends. A command sends one line, its `EngineRequest`; the engine answers one:
`ready`, or `failed` and why. It says `stopping` before it ends, so that a connection which breaks
without that word means that the engine was killed.

As long as its Redis cannot write its data it does not end: the last command is told why (`stays`)
and let go, and the engine ends once all is written.

Standard library only: every command waits for this to start.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic

from sleipnir.scheduler.embedded.append_only import unwritten
from sleipnir.scheduler.embedded.data_format import require_format
from sleipnir.scheduler.embedded.place import MAX_WAIT_S, Engine, EngineRequest, Place, lock
from sleipnir.scheduler.embedded.redis_server import PrivateRedis, socket_directory
from sleipnir.scheduler.embedded.supervisor import ChildProcess, Supervisor, say
from sleipnir.scheduler.errors import EngineUnreachable
from sleipnir.scheduler.periodic import pause

# What a worker needs beyond its drain to close its files.
DRAIN_MARGIN_S = 5.0
# How often an engine that cannot end looks whether it can.
_LOOKS_AGAIN_S = 1.0
# The log becomes `engine.log.1` beyond this size, and is looked at this often.
LOG_BYTES = 8 * 1024 * 1024
_LOG_LOOK_S = 2.0
_REDIS = "redis"
# What a server gets to end whose engine was killed.
LEFTOVER_S = 10.0


def rotate(log_file: Path, limit_bytes: int = LOG_BYTES) -> None:
    """Put a log that is too large aside: its end, in place of what was put aside before.

    All processes of the engine have it open to append, so it is emptied and not replaced.
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


def worker_children(
    redis_url: str, processes: int, concurrency: int, environment: Mapping[str, str] | None = None
) -> list[ChildProcess]:
    """Worker processes of one machine; the first one runs the scheduler as well."""
    # -P: a directory of the user's that happens to be called `worker` is not ours.
    command = [sys.executable, "-P", "-m", "sleipnir.worker", "--redis", redis_url]
    command += ["--concurrency", str(concurrency), "--quiet"]
    return [
        ChildProcess(
            f"worker {n}",
            [*command, "--scheduler"] if n == 1 else command,
            env=environment,
        )
        for n in range(1, processes + 1)
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
        # Whether it goes on without users: as `sleipnir up` does.
        self._stays = False
        self._closing = False
        self._redis_restarts = False  # for its socket to come back
        self._data_removed = ""  # what somebody did with the data directory, if so
        self._supervisor = Supervisor(grace_s=DRAIN_MARGIN_S, adopts=True)

    def start(self) -> Engine:
        """Start Redis and open the door; returns once both are ready.

        Raises:
            EngineUnreachable: when there is no Redis that starts.
        """
        try:
            engine = self._sign()
            self._start_redis()
            self._open_door()
            self._supervisor.call_in(_LOOKS_AGAIN_S, self._look_after_files)
        except BaseException as error:
            self.abandon()
            if isinstance(error, OSError):
                raise EngineUnreachable(f"the embedded engine cannot start: {error}") from error
            raise
        return engine

    def admit(self, user: socket.socket) -> None:
        """Serve a connected command until it goes."""
        self._users[user] = bytearray()
        self._supervisor.watch(user, partial(self._hear, user))

    def bound_log(self) -> None:
        """Keep the log from filling the disk, for as long as `serve` runs."""
        rotate(self._place.log_file)
        self._supervisor.call_in(_LOG_LOOK_S, self.bound_log)

    def stay(self, request: EngineRequest, companions: Sequence[ChildProcess]) -> None:
        """Be used by ourselves: run what `request` asks for, and `companions`, until a signal."""
        self._stays = True
        self.bound_log()
        self._provide(request)
        for companion in companions:
            self._supervisor.start(companion)

    def serve(self) -> None:
        """Run until nobody is left or a signal comes; returns when all children have ended.

        Raises:
            EngineUnreachable: when it stopped since its data directory was removed.
        """
        self._supervisor.run(on_stopping=self._close_door)
        # A server that was killed, or failed to start, leaves its own.
        self._redis.socket_file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._control.parent.rmdir()
        for descriptor in self._locks:
            os.close(descriptor)
        # Last: this is what a command that leaves is waiting for.
        for user in self._users:
            user.close()
        if self._data_removed:
            raise EngineUnreachable(f"{self._data_removed}; what it held is lost")

    def abandon(self) -> None:
        """End everything now: its start went wrong."""
        self._supervisor.stop()
        self.serve()

    def _sign(self) -> Engine:
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
        require_format(self._redis.directory)
        server = ChildProcess(
            _REDIS,
            self._redis.command_line(self._redis.find_program()),
            umask=0o077,
            pass_fds=(data_lock,),
            # Should we be killed, this lets it write out and exit by itself.
            death_signal=signal.SIGTERM,
            farewell=self._shut_down_redis,
            outlives_others=True,
            holds_back=lambda: unwritten(self._redis),
        )
        self._redis.await_ready(self._supervisor.start(server))

    def _shut_down_redis(self) -> None:
        if why := unwritten(self._redis):  # and somebody insisted
            self._place.note_loss(why)
        self._redis.shut_down()

    def _lock_data(self) -> int:
        """Take the lock that the server shares; a server whose engine was killed ends first."""
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

    def _open_door(self) -> None:
        self._control.unlink(missing_ok=True)
        self._door.bind(str(self._control))
        self._door.listen(64)
        self._supervisor.watch(self._door, lambda: self.admit(self._door.accept()[0]))

    def _look_after_files(self) -> None:
        if self._closing:
            return
        if self._has_lost_data():
            # Other commands would start a second engine, which knows nothing of this one.
            self._data_removed = (
                f"the data directory {self._place.data_dir} was removed or replaced"
            )
            say(f"{self._data_removed}; stopping")
            self._supervisor.stop()
            return
        self._mend_sockets()
        self._supervisor.call_in(_LOOKS_AGAIN_S, self._look_after_files)

    def _has_lost_data(self) -> bool:
        try:
            found = self._place.engine_lock.stat()
        except FileNotFoundError:
            return True
        except OSError:  # a file system that is away for a moment
            return False
        return not os.path.samestat(found, os.fstat(self._locks[0]))

    def _mend_sockets(self) -> None:
        """Make anew what somebody has removed, such as a cleaner of temporary files."""
        with contextlib.suppress(EngineUnreachable, OSError):  # not now
            socket_directory(self._place.data_dir)
            if not self._control.exists():
                say("the socket directory was removed; recreating it")
                self._supervisor.unwatch(self._door)
                self._door.close()
                self._door = socket.socket(socket.AF_UNIX)
                self._open_door()
            if self._redis.socket_file.exists():
                self._redis_restarts = False
            elif not self._redis_restarts:
                # It cannot be told to listen once more.
                self._redis_restarts = True
                self._supervisor.restart(_REDIS)

    def _close_door(self) -> None:
        self._closing = True
        if self._door.getsockname():
            self._supervisor.unwatch(self._door)
            self._control.unlink(missing_ok=True)
        self._door.close()
        for user in self._users:
            _tell(user, stopping=True)

    def _hear(self, user: socket.socket) -> None:
        try:
            part = user.recv(65536)
        except OSError:
            part = b""
        if not part:
            self._see_off(user)
            return
        heard = self._users[user]
        heard += part
        if heard.endswith(b"\n"):
            try:
                request = EngineRequest(**json.loads(heard))
                # `up` has the workers its user wanted, with that user's environment: those of
                # a passing command would stay, and run what others submit.
                if not self._stays:
                    self._provide(request)
                _tell(user, ready=True)
            except (OSError, ValueError, TypeError) as error:
                # Theirs alone: the others go on.
                _tell(user, failed=f"the engine cannot handle the request: {error}")
            heard.clear()

    def _provide(self, request: EngineRequest) -> None:
        """Start the workers asked for that are not there yet."""
        supervisor = self._supervisor
        supervisor.grace_s = max(supervisor.grace_s, request.drain_s + DRAIN_MARGIN_S)
        for worker in worker_children(
            self._redis.url, request.workers, request.concurrency, request.environment
        ):
            supervisor.start(worker)

    def _see_off(self, user: socket.socket) -> None:
        self._supervisor.unwatch(user)
        if self._stays or len(self._users) > 1:
            self._let_go(user)
        elif why := unwritten(self._redis):
            _tell(user, stays=f"the engine (pid {os.getpid()}) cannot stop yet: {why}")
            self._let_go(user)
            self._supervisor.call_in(_LOOKS_AGAIN_S, self._end_when_written)
        else:
            # Its connection stays open until all is over.
            self._supervisor.stop()

    def _let_go(self, user: socket.socket) -> None:
        del self._users[user]
        user.close()

    def _end_when_written(self) -> None:
        """End, unless somebody uses us again: then their leaving is the time for it."""
        if self._users:
            return
        if unwritten(self._redis):
            self._supervisor.call_in(_LOOKS_AGAIN_S, self._end_when_written)
        else:
            self._supervisor.stop()


def _tell(user: socket.socket, **message: object) -> None:
    with contextlib.suppress(OSError):  # it has died; the engine hears of that
        user.sendall(json.dumps(message).encode() + b"\n")


def _main() -> None:
    """The background engine; its standard input is the connection of its first user."""
    if os.fork():
        os._exit(0)  # what goes on has no parent that would have to wait for its end
    user = socket.socket(fileno=os.dup(sys.stdin.fileno()))
    os.dup2(os.open(os.devnull, os.O_RDONLY), sys.stdin.fileno())
    place = Place(Path(sys.argv[1]))
    # An engine that is ending gets its time, but nobody waits for one that hangs.
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
    with contextlib.suppress(EngineUnreachable):  # its log says why
        process.serve()
    # The interpreter would take its time to end, and the last command has been let go.
    os._exit(0)


if __name__ == "__main__":
    _main()
