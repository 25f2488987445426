"""A primary, a replica and the sentinels that monitor them, on the loopback interface."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis
from redis.exceptions import RedisError

from tests.support.certificates import PrivateCA
from tests.support.redis_processes import RedisProcesses
from tests.support.tls_door import WATCHER, StaffDoor, TlsDoor
from tests.support.wait import wait_until

SERVICE = "my-service"
PASSWORD = "s3cret/@:"
_SECRET = "%73%33cret%2F%40%3A"  # quoted for a URL


class Watched(RedisProcesses):
    """Two Redis servers monitored by sentinels: if the primary dies, the replica takes over."""

    def __init__(self, directory: Path, sentinels: int) -> None:
        super().__init__(directory)
        ports = free_ports(2 + sentinels + 1)
        self.ports, self._sentinels, (nobody,) = ports[:2], ports[2:-1], ports[-1:]
        # The first sentinel in the list is not running.
        hosts = ",".join(f"127.0.0.1:{port}" for port in (nobody, *self._sentinels))
        self.url = f"sentinel://:{_SECRET}@{hosts}/{SERVICE}/1"

    def __enter__(self) -> Watched:
        first, second = self.ports
        self._start_server(first)
        self._start_server(second, "--replicaof", "127.0.0.1", str(self._address_of(first)))
        wait_until(lambda: self._is_linked(second), "the replica has what the primary has", 60)
        for port in self._sentinels:
            self._start_sentinel(port, first)
        others = len(self._sentinels) - 1
        wait_until(lambda: self._sees(1, others), "the sentinels know the replica", 60)
        return self

    def primary(self) -> int:
        """The port of the primary, as the sentinels know it."""
        address = int(self._ask(self._sentinels[0])["port"])
        return next(port for port in self.ports if self._address_of(port) == address)

    def kill_primary(self) -> None:
        """Kill the primary as a crash would, and wait until the other server has taken over."""
        old = self.primary()
        self.kill(old)
        self._await_another(old)

    def demote_primary(self) -> None:
        """Have the servers change roles, and wait until they have."""
        old = self.primary()
        with redis.Redis(port=self._sentinels[0]) as sentinel:
            sentinel.execute_command("SENTINEL", "FAILOVER", SERVICE)
        self._await_another(old)
        wait_until(lambda: self._role(old) == "slave", "the primary is a replica", 60)

    def _await_another(self, old: int) -> None:
        wait_until(lambda: self.primary() != old, "the replica takes over", 60)
        wait_until(lambda: self._role(self.primary()) == "master", "and knows it", 60)

    def _address_of(self, server: int) -> int:
        """Return the port at which others reach a server, given its own."""
        return server

    def _start_server(self, port: int, *options: str) -> None:
        own = ("--requirepass", PASSWORD, "--masterauth", PASSWORD)
        own += ("--masteruser", WATCHER, "--unixsocket", str(self._socket_file(port)))
        own += ("--replica-announce-ip", "127.0.0.1")
        own += ("--replica-announce-port", str(self._address_of(port)))
        user = f"--user {WATCHER} on >{PASSWORD} allkeys allchannels allcommands"
        self._launch_server(port, *own, *user.split(), *options)
        wait_until(lambda: self._role(port), f"the server at {port} answers", 60)

    def _start_sentinel(self, port: int, primary: int) -> None:
        directory = self._directory / str(port)
        directory.mkdir()
        (directory / "sentinel.conf").write_text(
            f"port {port}\nbind 127.0.0.1\ndir {directory}\n"
            f"unixsocket {self._socket_file(port)}\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {self._address_of(primary)} "
            f"{len(self._sentinels) // 2 + 1}\n"
            f"sentinel auth-user {SERVICE} {WATCHER}\n"
            f"sentinel auth-pass {SERVICE} {PASSWORD}\n"
            f"sentinel down-after-milliseconds {SERVICE} 500\n"
            f"sentinel failover-timeout {SERVICE} 5000\n"
        )
        self._launch(port, str(directory / "sentinel.conf"), "--sentinel")

    def _socket_file(self, port: int) -> Path:
        return self._directory / f"{port}.socket"

    def _ask(self, sentinel: int) -> dict[str, Any]:
        with redis.Redis(port=sentinel, decode_responses=True) as client:
            found: Any = client.sentinel_master(SERVICE)
            return dict(found)

    def _sees(self, replicas: int, sentinels: int) -> bool:
        try:
            found = [self._ask(port) for port in self._sentinels]
        except RedisError:
            return False
        return all(
            (state["num-slaves"], state["num-other-sentinels"]) == (replicas, sentinels)
            for state in found
        )

    def _role(self, port: int) -> str | None:
        return self._replication(port).get("role")

    def _is_linked(self, port: int) -> bool:
        return self._replication(port).get("master_link_status") == "up"

    def _replication(self, port: int) -> dict[str, Any]:
        try:
            with redis.Redis(port=port, password=PASSWORD, decode_responses=True) as client:
                found: Any = client.info("replication")
                return dict(found)
        except RedisError:
            return {}


class WatchedOverTls(Watched):
    """The same with TLS in front of servers and sentinels; clients need a certificate of the CA."""

    def __init__(self, directory: Path, ca: PrivateCA) -> None:
        super().__init__(directory, 1)
        servers = {port: StaffDoor(ca, self._socket_file(port)) for port in self.ports}
        sentinels = [TlsDoor(ca, self._socket_file(port)) for port in self._sentinels]
        self._of_servers, self._of_sentinels = servers, sentinels
        self._doors = ExitStack()

    def __enter__(self) -> WatchedOverTls:
        for door in (*self._of_servers.values(), *self._of_sentinels):
            self._doors.enter_context(door)
        hosts = ",".join(f"127.0.0.1:{door.port}" for door in self._of_sentinels)
        self.url = f"sentinels://:{_SECRET}@{hosts}/{SERVICE}/1"
        super().__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        with self._doors:
            super().__exit__(*raised)

    def _address_of(self, server: int) -> int:
        return self._of_servers[server].port


def free_ports(count: int) -> tuple[int, ...]:
    """Return ports on which nobody listens."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return tuple(each.getsockname()[1] for each in sockets)


def cluster_options() -> tuple[str, ...]:
    """Return options of a server in cluster mode: its second port is 10,000 above its first."""
    port = next(port for (port,) in iter(lambda: free_ports(1), None) if port + 10_000 < 2**16)
    return ("--cluster-enabled", "yes", "--port", str(port), "--bind", "127.0.0.1")
