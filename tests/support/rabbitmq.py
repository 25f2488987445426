"""A private RabbitMQ for tests, on loopback, with its own data, ports and cookie."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from kombu import Connection

from sleipnir.scheduler.embedded.supervisor import die_with_parent
from sleipnir.scheduler.store.keys import QUEUE
from tests.support.wait import wait_until

# Debian's program of this name first changes its user and directories; the one behind it does not.
_PROGRAMS = ("/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server")
_STARTS_S = 90


def find_rabbitmq() -> str | None:
    """Return the server's start script, if it is installed."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class RabbitMQ:
    """A broker with its data in `directory`; it can be killed and started again."""

    def __init__(self, directory: Path, **configuration: int) -> None:
        """`configuration` has parameters of its application `rabbit`."""
        self._directory = directory
        self._port, distribution_port, names_port = (_free_port() for _ in range(3))
        self.url = f"amqp://guest:guest@127.0.0.1:{self._port}//"
        parameters = "".join(f", {{{name}, {value}}}" for name, value in configuration.items())
        (directory / "advanced.config").write_text(
            f'[{{rabbit, [{{tcp_listeners, [{{"127.0.0.1", {self._port}}}]}}{parameters}]}}].\n'
        )
        self._environment: Mapping[str, str] = {
            **os.environ,
            "HOME": str(directory),  # contains the cookie
            "ERL_EPMD_PORT": str(names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"sleipnir-{names_port}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution_port),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": str(directory),
            "RABBITMQ_LOG_BASE": str(directory),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
            "RABBITMQ_CONF_ENV_FILE": str(directory / "none"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        }
        self._names: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it with its existing data, and wait until it accepts connections."""
        program = find_rabbitmq()
        assert program is not None, "no rabbitmq-server is installed"
        with (self._directory / "output").open("ab") as output:
            self._server = self._spawn(program, output)
        wait_until(self._listens, "RabbitMQ listens", _STARTS_S)

    def _spawn(self, program: str, output: Any = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [program],
            cwd=self._directory,  # for crash dumps
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            process_group=0,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )

    def _listens(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, (self._directory / "output").read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port)):
            return True
        return False

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Kill it as a crash would, or shut it down with SIGTERM."""
        assert self._server is not None, "the broker is not running"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._server.pid, number)
        self._server.wait(timeout=90)
        self._server = None

    def queued(self) -> int:
        """Return how many messages wait for a worker."""
        with Connection(self.url) as connection:
            return int(connection.default_channel.queue_declare(QUEUE, passive=True).message_count)

    def lose_messages(self) -> int:
        """Drop everything in the queue; return how many messages."""
        with Connection(self.url) as connection:
            return int(connection.default_channel.queue_purge(QUEUE))

    def __enter__(self) -> RabbitMQ:
        # Erlang's node registry; one started by RabbitMQ would outlive it.
        self._names = self._spawn("epmd")
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            self.kill(signal.SIGTERM)
        if self._names is not None:
            self._names.kill()
            self._names.wait(timeout=90)
