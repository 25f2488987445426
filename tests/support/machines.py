"""Machines that share nothing but a network, on one kernel, by Linux namespaces. Needs root.

A machine has its own network, host name and disk. What it writes below the test's directory goes to
a file system of its own, which a test reads through `Machine.read`.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote

from sleipnir.scheduler.embedded.redis_server import find_server, socket_directory
from sleipnir.scheduler.embedded.supervisor import die_with_parent
from tests.support.wait import wait_until
from tests.support.workers import Worker

PORT = 6379
PASSWORD = "p@ss:w/rd"
# Tests may run in parallel, and names of network namespaces are global.
_NUMBERS = itertools.count()


def _ip(*arguments: str) -> None:
    try:
        subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
    except FileNotFoundError:
        raise AssertionError("no program `ip`: apt-get install iproute2") from None
    except subprocess.CalledProcessError as error:
        said = f"ip {' '.join(arguments)}: {error.stderr.strip()}"
        raise AssertionError(f"{said} (this needs root, and CAP_NET_ADMIN in containers)") from None


class Machine:
    """A host with one cable, to the machine with Redis."""

    def __init__(self, network: Network, name: str, number: int) -> None:
        self.name = name
        self._namespace = network.add_namespace(name)
        self._hub, self._hub_end = network.namespace, f"to-{name}"
        self._directory = network.directory
        self._log = network.directory / f"{name}.log"
        hub_address, address = f"10.9.{number}.1", f"10.9.{number}.2"
        peer = ("peer", "name", "eth0", "netns", self._namespace)
        _ip("-n", self._hub, "link", "add", self._hub_end, "type", "veth", *peer)
        for namespace, end, own in (
            (self._hub, self._hub_end, hub_address),
            (self._namespace, "eth0", address),
        ):
            _ip("-n", namespace, "address", "add", f"{own}/24", "dev", end)
            _ip("-n", namespace, "link", "set", end, "up")
        self.redis_address = hub_address
        self._worker: Worker | None = None

    def unplug(self) -> None:
        """Take the network down: the machine notices, and its calls fail at once."""
        _ip("-n", self._namespace, "link", "set", "eth0", "down")

    def silence(self) -> None:
        """Drop all packets: neither side notices."""
        _ip("-n", self._hub, "link", "set", self._hub_end, "down")

    def heal(self) -> None:
        """Restore the network."""
        _ip("-n", self._namespace, "link", "set", "eth0", "up")
        _ip("-n", self._hub, "link", "set", self._hub_end, "up")

    def start_worker(self, **settings: Any) -> Worker:
        """Start a worker with a scheduler in it, on a disk of its own."""
        url = f"redis://:{quote(PASSWORD, safe='')}@{self.redis_address}:{PORT}/0"
        values = {
            **settings,
            "redis_url": url,
            "data_dir": self._directory / "data",
            "config_dir": self._directory / "config",
        }
        own_disk = 'mount -t tmpfs none "$1" && hostname "$2" && shift 2 && exec "$@"'
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [
                    *("ip", "netns", "exec", self._namespace, "unshare", "--mount", "--uts"),
                    *("sh", "-c", own_disk, "sh", str(self._directory), self.name),
                    *(sys.executable, "-m", "sleipnir.worker", "--scheduler", "-vv"),
                ],
                env=os.environ | {f"SLEIPNIR_{k.upper()}": str(v) for k, v in values.items()},
                stdout=log,
                stderr=subprocess.STDOUT,
                process_group=0,
                preexec_fn=die_with_parent(signal.SIGKILL),
            )
        self._worker = Worker(process, self._log)
        wait_until(lambda: " ready." in self._log.read_text(), f"{self.name} is ready", 30)
        return self._worker

    def read(self, file: Path) -> str:
        """Return a file as this machine sees it; empty if it does not exist."""
        assert self._worker is not None, "nothing runs there"
        here = Path(f"/proc/{self._worker.pid}/root{file}")
        return here.read_text() if here.exists() else ""

    def refused(self) -> int:
        """Return how many of its results were refused as outdated."""
        return self._log.read_text().count("dropped: advance_step: ")

    def kill(self) -> None:
        """Kill what runs there, as a power failure would."""
        if self._worker is not None:
            self._worker.kill()


class Network:
    """A machine with a Redis that has a password, and other machines linked to it.

    Args:
        directory: used by the test and Redis; empty on the other machines.
    """

    def __init__(self, directory: Path, *names: str) -> None:
        self.directory = directory
        self._id = f"sleipnir-{os.getpid()}-{next(_NUMBERS)}"
        self._namespaces: list[str] = []
        self.machines: list[Machine] = []
        self._names = names
        self._redis: subprocess.Popen[bytes] | None = None
        directory.joinpath("redis").mkdir()
        self._socket = socket_directory(directory / "redis") / "redis.sock"
        # For the test's own network, which has no route to the others.
        self.url = f"unix://{self._socket}?db=0&password={quote(PASSWORD, safe='')}"

    def add_namespace(self, name: str) -> str:
        namespace = f"{self._id}-{name}"
        _ip("netns", "add", namespace)
        self._namespaces.append(namespace)
        _ip("-n", namespace, "link", "set", "lo", "up")
        return namespace

    def __enter__(self) -> Network:
        try:
            self._build()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _build(self) -> None:
        self.namespace = self.add_namespace("redis")
        for number, name in enumerate(self._names):
            self.machines.append(Machine(self, name, number))
        addresses = [machine.redis_address for machine in self.machines]
        options = {
            "port": [str(PORT)],
            "bind": addresses,
            "requirepass": [PASSWORD],
            "unixsocket": [str(self._socket)],
            "dir": [str(self.directory / "redis")],
            "appendonly": ["yes"],
            "save": [""],
        }
        self._redis = subprocess.Popen(
            [
                *("ip", "netns", "exec", self.namespace, str(find_server().path)),
                *(part for name, values in options.items() for part in (f"--{name}", *values)),
            ],
            stdout=subprocess.DEVNULL,
            process_group=0,
            preexec_fn=die_with_parent(signal.SIGKILL),
        )
        wait_until(self._socket.exists, "Redis listens")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for machine in self.machines:
            machine.kill()
        if self._redis is not None:
            self._redis.kill()
            self._redis.wait(timeout=90)
        for namespace in self._namespaces:
            _ip("netns", "delete", namespace)
        self._socket.unlink(missing_ok=True)
        self._socket.parent.rmdir()
