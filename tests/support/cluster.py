"""A Redis Cluster on the loopback interface: three primaries, each with a replica."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import redis
from redis.exceptions import RedisError

from sleipnir.scheduler.store.cluster.nodes import SLOTS
from tests.support.redis_processes import RedisProcesses
from tests.support.sentinels import free_ports
from tests.support.wait import wait_until

# Set to anything, it has tests use a cluster in place of their server.
TRIED_CLUSTER = "TRIED_CLUSTER"
_BUS = 10_000  # a node's second port is so far above its first


class Cluster(RedisProcesses):
    """Nodes of a cluster, which can be killed and started again; the first ones are primaries."""

    def __init__(self, directory: Path, *, primaries: int = 3, replicas: bool = True) -> None:
        super().__init__(directory)
        self._primaries = primaries
        self.ports = _ports(primaries * (2 if replicas else 1))
        self.url = "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in self.ports[:2])
        self.broker_url = self.url

    def __enter__(self) -> Cluster:
        self._directory.mkdir(parents=True, exist_ok=True)
        for port in self.ports:
            self.start(port)
        first, *others = self.ports
        each = SLOTS / self._primaries
        for number, port in enumerate(self.ports[: self._primaries]):
            low, high = round(number * each), round((number + 1) * each) - 1
            self.ask(port, "CLUSTER", "ADDSLOTSRANGE", low, high)
            self.ask(port, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for port in others:
            self.ask(port, "CLUSTER", "MEET", "127.0.0.1", first)
        wait_until(lambda: all(map(self._knows_all, self.ports)), "the nodes have met", 60)
        for primary, port in zip(self.ports, self.ports[self._primaries :], strict=False):
            self.ask(port, "CLUSTER", "REPLICATE", self.ask(primary, "CLUSTER", "MYID"))
        wait_until(lambda: all(map(self._is_ready, self.ports)), "the cluster is ready", 60)
        return self

    def start(self, port: int) -> None:
        """Start a node with its existing data, and wait until it answers."""
        own = ("--unixsocket", str(self.socket_file(port)))
        own += ("--cluster-enabled", "yes", "--cluster-node-timeout", "1500")
        self._launch_server(port, *own)
        wait_until(lambda: self._try(port, "PING") is not None, f"the node at {port} answers", 60)

    def socket_file(self, port: int) -> Path:
        """The socket file of a node, for doors of another kind before it."""
        return self._directory / f"{port}.sock"

    def fail_over(self, port: int) -> None:
        """Kill a primary whose replica has received everything, and wait for all slots."""
        # What has not been received is lost, which is Redis' promise.
        self.ask(port, "CLIENT", "PAUSE", 60_000, "WRITE")
        wait_until(lambda: self._is_copied(port), f"the replica of {port} has it all", 60)
        self.kill(port)
        wait_until(lambda: len(self.primaries()) == self._primaries, "a replica is promoted", 60)
        self.await_ready()

    def rejoin(self, port: int) -> None:
        """Start a killed node again, and wait until it is a replica that has everything."""
        self.start(port)
        wait_until(lambda: self._is_replica(port), f"{port} is a replica", 60)

    def _is_replica(self, port: int) -> bool:
        role = self.ask(port, "ROLE")
        return bool(role[0] == "slave" and role[3] == "connected" and self._is_ok(port))

    def _is_copied(self, port: int) -> bool:
        with redis.Redis(port=port, decode_responses=True) as client:
            told: Any = client.info("replication")
        return bool(told["slave0"]["offset"] == told["master_repl_offset"])

    def send_signal(self, port: int, number: int) -> None:
        """Send a signal to a node, to stop it for a while, say."""
        self._processes[port].send_signal(number)

    def ask(self, port: int, *words: Any) -> Any:
        """Send a command to a node."""
        with redis.Redis(port=port, decode_responses=True) as client:
            execute: Any = client.execute_command  # untyped in redis-py
            return execute(*words)

    def primaries(self) -> list[int]:
        """The ports of the nodes that are primaries and run."""
        return [port for port in self.ports if self._role(port) == "master"]

    def owner_of(self, slot: int) -> int:
        """The port of the node that serves a slot."""
        for first, last, primary, *_ in self.ask(self.primaries()[0], "CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return int(primary[1])
        raise LookupError(slot)

    def move_slot(self, slot: int, target: int) -> None:
        """Move a slot with its keys to another primary, as the cluster's own tools do."""
        source = self.owner_of(slot)
        ids = {port: self.ask(port, "CLUSTER", "MYID") for port in (source, target)}
        self.ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", ids[source])
        self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", ids[target])
        while keys := self.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 100):
            self.ask(source, "MIGRATE", "127.0.0.1", target, "", 0, 5000, "KEYS", *keys)
        for port in (target, source):
            self.ask(port, "CLUSTER", "SETSLOT", slot, "NODE", ids[target])

    def running(self) -> list[int]:
        """The ports of the nodes that run."""
        return [port for port in self.ports if self._processes[port].poll() is None]

    def await_ready(self) -> None:
        """Wait until all slots are served, as all running nodes see it."""
        wait_until(lambda: all(map(self._is_ok, self.running())), "all slots are served", 60)

    def _try(self, port: int, *words: Any) -> Any:
        try:
            return self.ask(port, *words)
        except RedisError:
            return None

    def _role(self, port: int) -> str | None:
        found = self._try(port, "ROLE")
        return found[0] if found else None

    def _knows_all(self, port: int) -> bool:
        found = str(self.ask(port, "CLUSTER", "NODES"))
        return len(found.splitlines()) == len(self.ports) and "handshake" not in found

    def _is_ok(self, port: int) -> bool:
        return "cluster_state:ok" in str(self.ask(port, "CLUSTER", "INFO"))

    def _is_ready(self, port: int) -> bool:
        is_primary = self.ports.index(port) < self._primaries
        return self._is_ok(port) if is_primary else self._is_replica(port)


def _ports(count: int) -> tuple[int, ...]:
    """Return ports on which nobody listens, and whose second ports exist."""
    found: list[int] = []
    while len(found) < count:
        found += [port for port in free_ports(count) if port + _BUS < 2**16]
    return tuple(found[:count])
