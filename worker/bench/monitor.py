"""The case `monitor`: what its pages take over many stored runs, as a browser waits for them."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter

from sleipnir.records import dataclass
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.monitor_key import monitor_key
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.bench.arena import ITEMS, LENGTH, Arena
from sleipnir.worker.bench.loader import load
from sleipnir.worker.bench.rows import Row, Sample, row

_START_S = 60.0
# A visitor may ask for 50 pages a second.
_PACE_S = 0.025
_MIB = 1024 * 1024
_NEVER = threading.Event()
_LISTENS = re.compile(rb"http://127\.0\.0\.1:(\d+)")


def monitor(arena: Arena, rounds: int) -> Iterator[Row]:
    """The first byte of each page: median, least, and what 95 in 100 stay below."""
    now_ms = arena.client.queries.now_ms()
    load(arena.redis, 0, arena.stored, now_ms)
    finished = {name: _finished(arena, name) for name in (f"linear-{LENGTH}", f"map-{ITEMS}")}
    began = perf_counter()
    server = _Monitor.start(arena)
    yield row("monitor, from its start to its first page", "start", 1, [_since(began)], None)
    linear, mapped = finished.values()
    pages = {
        "runs, newest": "/runs",
        "runs, failed": "/runs?status=failed",
        "runs, of a rare agent": "/runs?agent=rare",
        "runs, of a batch": "/runs?batch=batch-0",
        "runs, until 1 h ago": "/runs?until=1h",
        "runs, next page": f"/runs?cursor={server.cursor()}",
        "runs as JSON": "/api/v1/runs",
        f"run of {LENGTH} nodes, graph": f"/runs/{linear}/graph",
        f"run of {LENGTH} nodes, state": f"/runs/{linear}/state",
        f"items of a map of {ITEMS:,}": f"/runs/{mapped}/items?map=map",
        "inbox": "/inbox",
    }
    for name, path in pages.items():
        samples = [server.get(path) for _ in range(max(20, rounds))][1:]  # the first one is cold
        yield row(name, "page", 1, samples, None)
        slow = sorted(sample.seconds for sample in samples)[int(0.95 * len(samples))]
        yield Row(f"{name}, 95 in 100", "page", 1000 * slow, 1000 * slow)
    memory = server.memory_bytes() / _MIB
    yield Row("monitor, memory", "MiB", memory, memory)


def _since(began: float) -> Sample:
    return Sample(perf_counter() - began, 0.0)


def _finished(arena: Arena, agent: str) -> str:
    run_id = arena.client.submit(arena.prepare(agent), Request())
    arena.client.wait(run_id)
    return run_id


@dataclass(frozen=True, slots=True)
class _Monitor:
    """A monitor process, and a visitor of it."""

    pid: int
    port: int
    key: str

    @classmethod
    def start(cls, arena: Arena) -> _Monitor:
        """Start one, and wait until it answers.

        Raises:
            RuntimeError: it does not.
        """
        log = arena.home / "workers.log"
        known = log.stat().st_size
        address = ("--address", "127.0.0.1", "--port", "0")
        module, url = "sleipnir.worker.monitor.server", arena.redis_url
        child = arena.start(module, *address, SLEIPNIR_REDIS_URL=url)
        ends_at = perf_counter() + _START_S
        while perf_counter() < ends_at and child.poll() is None:
            if found := _LISTENS.search(log.read_bytes()[known:]):
                made = cls(child.pid, int(found[1]), monitor_key(data_dir()))
                with suppress(OSError):
                    made.get("/healthz")
                    return made
            _NEVER.wait(0.02)
        raise RuntimeError(f"the monitor did not start: {log.read_bytes()[known:].decode()}")

    def get(self, path: str) -> Sample:
        """Ask for a page; the time to its first byte.

        Raises:
            RuntimeError: it is refused.
        """
        sample, status, text = self._ask(path)
        if status != 200:
            raise RuntimeError(f"{path}: HTTP status {status}: {text[:200]!r}")
        return sample

    def cursor(self) -> str:
        """Where the second page of runs begins."""
        return str(json.loads(self._ask("/api/v1/runs")[2])["next"])

    def _ask(self, path: str) -> tuple[Sample, int, bytes]:
        _NEVER.wait(_PACE_S)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        began = perf_counter()
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.key}"})
        response = connection.getresponse()
        sample = _since(began)
        text = response.read()
        connection.close()
        return sample, response.status, text

    def memory_bytes(self) -> int:
        status = Path(f"/proc/{self.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0
