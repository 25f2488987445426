"""The case `cluster`: how evenly the commands of visits are spread over three primaries."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from sleipnir.graphs.document.references import AgentSearch
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.config.settings import load_settings
from sleipnir.scheduler.embedded.redis_server import find_server
from sleipnir.scheduler.errors import EngineUnreachable
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.store.cluster.nodes import SLOTS
from sleipnir.scheduler.store.connection import connect
from sleipnir.worker.bench.arena import LENGTH, Arena
from sleipnir.worker.bench.capacity.replay import CLIENTS, replay
from sleipnir.worker.bench.capacity.server_figures import commands, cpu_s
from sleipnir.worker.bench.rows import Row

PRIMARIES = 3
# Of the commands of visits, in percent, on the primary that executes the most.
MOST = 40
_BUS = 10_000  # a node's second port is so far above its first
_START_S = 30.0
# What clients ask to find nodes and to see whether they answer.
_NOT_OF_VISITS = frozenset({"client|setinfo", "cluster|slots", "hello", "info", "ping"})


def cluster(arena: Arena, rounds: int) -> Iterator[Row]:
    """CPU of the primaries for a visit, and the share of commands of the one that has the most."""
    arena.stop_workers()
    with _started(arena.home / "cluster") as (url, nodes):
        settings = load_settings({"redis_url": url}).values
        with Client.connect(settings, AgentSearch((arena.home / "agents",))) as client:
            agent = client.prepare(f"linear-{LENGTH}")
            replay(client, agent, CLIENTS[-1])  # until then, nodes do not know the scripts
            costs, before = [], _executed(nodes)
            for _ in range(max(1, rounds // 5)):
                used_s = sum(map(cpu_s, nodes))
                visits = replay(client, agent, CLIENTS[-1])
                costs.append(1000 * (sum(map(cpu_s, nodes)) - used_s) / visits)
            executed = [after - b for after, b in zip(_executed(nodes), before, strict=True)]
    yield Row(f"Redis, a visit, {PRIMARIES} primaries", "visit", min(costs), min(costs))
    share = 100 * max(executed) / sum(executed)
    yield Row("commands of the busiest of these", "%", share, share).within(MOST)


def _executed(nodes: list[Any]) -> list[int]:
    """Return how many commands of visits each node has executed, those of scripts included."""
    return [
        sum(calls for name, calls in commands(node).items() if name not in _NOT_OF_VISITS)
        for node in nodes
    ]


@contextmanager
def _started(directory: Path) -> Iterator[tuple[str, list[Any]]]:
    """Yield the URL of a new cluster without replicas, and clients of its nodes."""
    program, ports = str(find_server().path), _free_ports(PRIMARIES)
    with ExitStack() as stack:
        for port in ports:
            own = directory / str(port)
            own.mkdir(parents=True)
            place = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(own))
            kept = ("--save", "", "--appendonly", "yes")
            log = stack.enter_context((own / "log").open("wb"))
            server = subprocess.Popen(
                [program, *place, *kept, "--cluster-enabled", "yes"], stdout=log, stderr=log
            )
            stack.callback(server.wait)
            stack.callback(server.terminate)
        ends_at = monotonic() + _START_S
        nodes: list[Any] = [stack.enter_context(_client(port, ends_at)) for port in ports]
        for number, node in enumerate(nodes):
            low, high = (round((number + each) * SLOTS / PRIMARIES) for each in (0, 1))
            node.cluster("ADDSLOTS", *range(low, high))
            node.cluster("SET-CONFIG-EPOCH", number + 1)  # as none has the same as another
            node.cluster("MEET", "127.0.0.1", ports[0])
        while not all(map(_serves, nodes)):
            _wait(ends_at)
        yield "redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in ports), nodes


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as each:
            each.bind(("127.0.0.1", 0))
            port = each.getsockname()[1]
        if port + _BUS < 2**16 and port not in found:
            found.append(port)
    return found


def _client(port: int, ends_at: float) -> Any:
    """Return a client of a node, once that answers."""
    while True:
        try:
            return connect(f"redis://127.0.0.1:{port}")
        except EngineUnreachable:
            _wait(ends_at)


def _serves(node: Any) -> bool:
    """Return whether a node knows the others, and who serves each slot."""
    return bool(node.cluster("INFO")["cluster_state"] == "ok")


def _wait(ends_at: float) -> None:
    if monotonic() > ends_at:
        raise RuntimeError(f"a cluster of three did not start within {_START_S:.0f} s")
    pause(0.05)
