"""The case `monitor`: what its pages take with many stored runs, and what watching them costs."""

from __future__ import annotations

import gzip
import http.client
import json
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter

from sleipnir.records import dataclass
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.monitor_key import monitor_key
from sleipnir.scheduler.process.packing import unpack
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.events import QuestionAsked
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.keys import run_key
from sleipnir.worker.bench.arena import LENGTH, MANY_ITEMS, MANY_NODES, Arena
from sleipnir.worker.bench.loader import load
from sleipnir.worker.bench.rows import Row, Sample, row
from sleipnir.worker.bench.watchers import Watchers

_START_S = 60.0
# A client may ask for 50 pages a second.
_PACE_S = 0.025
_KIB = 1024
_MIB = 1024 * _KIB
_NEVER = threading.Event()
_STEPS = 500  # of the run whose graph is drawn
_WATCHERS = 200
_TIMES = 3  # how often watchers see a run end
_ASSET = re.compile(rb'"(/assets/[^"]+)"')
_LISTENS = re.compile(rb"http://127\.0\.0\.1:(\d+)")


def monitor(arena: Arena, rounds: int) -> Iterator[Row]:
    """Time to the first byte of each page: median, minimum and 95th percentile."""
    now_ms = arena.client.queries.now_ms()
    load(arena.redis, 0, arena.stored, now_ms)
    began = perf_counter()
    server = _Monitor.start(arena)
    yield row("monitor, from its start to its first page", "start", 1, [_since(began)], None)
    yield from _watched(arena, server, rounds)
    mapped = arena.client.submit(arena.prepare(f"map-{MANY_ITEMS}"), Request())
    yield from _watched_map(arena, server, mapped)
    large = _large(arena)
    yield row(
        f"run of {MANY_NODES} nodes, first drawing",
        "page",
        1,
        [server.get(f"/runs/{large}/graph")],
        None,
    )
    pages = {
        "runs, newest": "/runs",
        "runs, failed": "/runs?status=failed",
        "runs, of a rare agent": "/runs?agent=rare",
        "runs, of a batch": "/runs?batch=batch-0",
        "runs, until 1 h ago": "/runs?until=1h",
        "runs, next page": f"/runs?cursor={server.cursor()}",
        "runs as JSON": "/api/v1/runs",
        f"run of {MANY_NODES} nodes and {_STEPS} steps, graph": f"/runs/{large}/graph",
        f"run of {MANY_NODES} nodes and {_STEPS} steps, state": f"/runs/{large}/state",
        f"items of a map of {MANY_ITEMS:,}": f"/runs/{mapped}/items?map=map",
        "inbox": "/inbox",
    }
    for name, path in pages.items():
        samples = [server.get(path) for _ in range(max(20, rounds))][1:]  # the first one is cold
        yield row(name, "page", 1, samples, None)
        yield _slowest(name, "page", samples)
    for name in ("runs, newest", f"items of a map of {MANY_ITEMS:,}"):
        page, assets = server.weight(pages[name])
        yield Row(f"{name}, sent at the first visit", "KiB", *[(page + assets) / _KIB] * 2)
        yield Row(f"{name}, sent later", "KiB", *[page / _KIB] * 2)
    memory = server.memory_bytes() / _MIB
    yield Row("monitor, memory", "MiB", memory, memory)


def _watched(arena: Arena, server: _Monitor, rounds: int) -> Iterator[Row]:
    """What people watching lists cost workers, and when watchers of a run see it end."""
    agent = arena.prepare(f"linear-{LENGTH}")
    arena.run(agent)
    unseen = [arena.run(agent) for _ in range(rounds)]
    yield row("node, nobody watching", "node", LENGTH, unseen, None)
    with Watchers(server.port, server.key, "runs,inbox").watching(_WATCHERS):
        seen = [arena.run(agent) for _ in range(rounds)]
    yield row(f"node, {_WATCHERS} watching lists", "node", LENGTH, seen, unseen)
    delays: list[Sample] = []
    for _ in range(_TIMES):
        run_id = arena.client.submit(arena.prepare("asking"), Request())
        for entry in arena.client.queries.follow(run_id):
            if isinstance(entry.event, QuestionAsked):
                break
        watchers = Watchers(server.port, server.key, f"run:{run_id}")
        with watchers.watching(_WATCHERS):
            answered = perf_counter()
            arena.client.answer(run_id, "now")
            arena.client.wait(run_id)
            watchers.await_all("final", _WATCHERS)
        delays += [
            Sample(each.at - answered, 0.0) for each in watchers.told if each.event == "final"
        ]
    name = f"from an answer to the end that {_WATCHERS} see"
    yield row(name, "frame", 1, delays, None)
    yield _slowest(name, "frame", delays)


def _watched_map(arena: Arena, server: _Monitor, run_id: str) -> Iterator[Row]:
    """What the monitor uses while people watch a busy run."""
    with Watchers(server.port, server.key, f"run:{run_id}").watching(_WATCHERS):
        seconds = [arena.measured(partial(pause, 1), [server.process]) for _ in range(5)]
        yield row(f"monitor, a second, {_WATCHERS} watching a busy run", "second", 1, seconds, None)
        alive = [server.get("/healthz") for _ in range(100)]
        yield _slowest("monitor, alive meanwhile", "answer", alive)
        memory = server.memory_bytes() / _MIB
        yield Row(f"monitor, memory, {_WATCHERS} watching", "MiB", memory, memory)
    arena.client.wait(run_id)
    quiet = [arena.measured(partial(pause, 1), [server.process]) for _ in range(5)]
    yield row("monitor, a second, nobody watching", "second", 1, quiet, None)


def _slowest(name: str, unit: str, samples: Sequence[Sample]) -> Row:
    """Return the 95th percentile."""
    slow = sorted(sample.seconds for sample in samples)[int(0.95 * len(samples))]
    return Row(f"{name}, 95 in 100", unit, 1000 * slow, 1000 * slow)


def _large(arena: Arena) -> str:
    """Create a run that visited many nodes more than once; its later steps are made up."""
    run_id = _finished(arena, f"linear-{MANY_NODES}")
    key = run_key("history", run_id)
    known = [json.loads(unpack(text)) for text in arena.redis.lrange(key, 0, -1)]
    later = ({**known[step % MANY_NODES], "step": step} for step in range(len(known), _STEPS))
    arena.redis.rpush(key, *map(json.dumps, later))
    return run_id


def _unpacked(text: bytes) -> bytes:
    return gzip.decompress(text) if text.startswith(b"\x1f\x8b") else text


def _since(began: float) -> Sample:
    return Sample(perf_counter() - began, 0.0)


def _finished(arena: Arena, agent: str) -> str:
    run_id = arena.client.submit(arena.prepare(agent), Request())
    arena.client.wait(run_id)
    return run_id


@dataclass(frozen=True, slots=True)
class _Monitor:
    """A monitor process, and a client of it."""

    process: subprocess.Popen[bytes]
    port: int
    key: str

    @classmethod
    def start(cls, arena: Arena) -> _Monitor:
        """Start a monitor, and wait until it answers.

        Raises:
            RuntimeError: it does not answer.
        """
        log = arena.home / "workers.log"
        known = log.stat().st_size
        address = ("--address", "127.0.0.1", "--port", "0")
        module, url = "sleipnir.worker.monitor.server", arena.redis_url
        child = arena.start(module, *address, SLEIPNIR_REDIS_URL=url)
        ends_at = perf_counter() + _START_S
        while perf_counter() < ends_at and child.poll() is None:
            if found := _LISTENS.search(log.read_bytes()[known:]):
                made = cls(child, int(found[1]), monitor_key(data_dir()))
                with suppress(OSError):
                    made.get("/healthz")
                    return made
            _NEVER.wait(0.02)
        raise RuntimeError(f"the monitor did not start: {log.read_bytes()[known:].decode()}")

    def get(self, path: str) -> Sample:
        """Ask for a page and measure the time to its first byte.

        Raises:
            RuntimeError: it is refused.
        """
        sample, status, text = self._ask(path)
        if status != 200:
            raise RuntimeError(f"{path}: HTTP status {status}: {text[:200]!r}")
        return sample

    def cursor(self) -> str:
        """Return the cursor of the second page of runs."""
        return str(json.loads(_unpacked(self._ask("/api/v1/runs")[2]))["next"])

    def _ask(self, path: str) -> tuple[Sample, int, bytes]:
        _NEVER.wait(_PACE_S)
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        began = perf_counter()
        connection.request(
            "GET", path, headers={"Authorization": f"Bearer {self.key}", "Accept-Encoding": "gzip"}
        )
        response = connection.getresponse()
        sample = _since(began)
        text = response.read()
        connection.close()
        return sample, response.status, text

    def weight(self, path: str) -> tuple[int, int]:
        """Return the bytes sent for a page, and for the assets it loads once."""
        page = self._ask(path)[2]
        assets = set(_ASSET.findall(_unpacked(page)))
        return len(page), sum(len(self._ask(each.decode())[2]) for each in assets)

    def memory_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) * 1024 if found else 0
