"""A private Redis for tests, with the program and options of the embedded engine.

with RedisServer(tmp_path) as server:
    client = redis.Redis.from_url(server.url)
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path
from types import TracebackType

from sleipnir.scheduler.embedded.redis_server import (
    OLDEST,
    PrivateRedis,
    ServerProgram,
    ServerVersion,
    socket_directory,
)
from sleipnir.scheduler.embedded.supervisor import die_with_parent

# Names a server to test, in place of the one that an engine would choose.
TRIED = "TRIED_SERVER"


class RedisServer:
    """A server with its data in `directory`; it can be killed and started again.

    `options` are further ones of its command line.
    """

    def __init__(self, directory: Path, *options: str) -> None:
        self._options = options
        directory.mkdir(parents=True, exist_ok=True)
        self._redis = PrivateRedis(directory, socket_directory(directory) / "redis.sock")
        self._process: subprocess.Popen[bytes] | None = None
        self.url = self._redis.url
        self.broker_url = self._redis.broker_url
        self.socket_file = self._redis.socket_file

    @property
    def pid(self) -> int:
        """The pid of the running server."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def start(self) -> None:
        """Start it with its existing data, and wait until it answers."""
        self._process = subprocess.Popen(
            [*self._redis.command_line(self._program()), *self._options],
            stdout=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        self._redis.await_ready(self._process)

    def _program(self) -> ServerProgram:
        if TRIED in os.environ:
            return ServerProgram(Path(os.environ[TRIED]), ServerVersion("Redis", OLDEST))
        return self._redis.find_program()

    def stop(self) -> None:
        """Have it save its data and exit; its URL stays the same."""
        if self._process is not None:
            self._redis.shut_down()
            self._process.wait(timeout=90)
            self._process = None

    def kill(self) -> None:
        """Kill it as a crash would."""
        assert self._process is not None, "the server is not running"
        self._process.kill()
        self._process.wait(timeout=90)
        self._process = None

    def __enter__(self) -> RedisServer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._redis.socket_file.unlink(missing_ok=True)  # left by one that was killed
        with contextlib.suppress(OSError):
            self._redis.socket_file.parent.rmdir()
