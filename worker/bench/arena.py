"""A private Redis with our workers and the baseline's side by side on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

from sleipnir.graphs.document.references import AgentSearch
from sleipnir.records import dataclass
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.config.settings import load_settings
from sleipnir.scheduler.embedded.place import Place
from sleipnir.scheduler.embedded.redis_server import PrivateRedis, socket_directory
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.bench import agents
from sleipnir.worker.bench.baseline import CANVAS_QUEUE, DONE, HOP_QUEUE, make_baseline
from sleipnir.worker.bench.rows import Sample

THREADS = 8
LENGTH = 100  # nodes or hops in a row
STEPS = 5  # nodes that take some time each, in a row
BACKLOG = 20_000  # runs of a batch that are queued first
PARKED = 10_000  # conversations that wait for a person
STORED = 1_000_000  # runs that lists are read from
WIDTH = 200  # branches
ITEMS = 1_000
MANY_ITEMS = 10_000
CHAIN = 3  # nodes for each item
MANY_NODES = 200
CALLERS = 500  # concurrent model calls
CALL_MS = 10_000  # duration of each
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Arena:
    """The processes and connections that the cases measure with."""

    client: Client
    redis: Any
    broker_url: str
    redis_url: str
    home: Path
    publisher: Any  # the baseline's app
    server: subprocess.Popen[bytes]  # Redis
    threads: int = THREADS  # per worker process
    backlog: int = BACKLOG
    stored: int = STORED
    archived: bool = False  # whether the stored runs are
    parked: int = PARKED
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    ours: list[subprocess.Popen[bytes]] = field(default_factory=list)
    theirs: dict[bool, subprocess.Popen[bytes]] = field(default_factory=dict)

    def prepare(self, name: str) -> PreparedAgent:
        return self.client.prepare(name)

    def run(self, agent: PreparedAgent) -> Sample:
        """Measure one run, from submission to end."""

        def act() -> None:
            run = self.client.wait(self.client.submit(agent, Request()))
            if run.status != "succeeded":
                raise RuntimeError(f"{agent.name}: {run.status}: {run.failure}")

        return self.measured(act, self.ours)

    def measured(
        self, act: Callable[[], None], processes: Sequence[subprocess.Popen[bytes]]
    ) -> Sample:
        """Measure the wall time of `act`, and the CPU time that the processes use meanwhile."""
        before, began = _cpu_seconds(processes), perf_counter()
        act()
        return Sample(perf_counter() - began, _cpu_seconds(processes) - before)

    def run_many(self, agent: PreparedAgent, count: int, batch: str) -> Sample:
        """Measure so many runs, submitted as a batch, from the first submission to the last end."""
        act = partial(self.submit_many, agent, count, Request(batch=batch))
        return self.measured(act, self.ours)

    def submit_many(self, agent: PreparedAgent, count: int, request: Request) -> None:
        """Submit so many runs of a request's batch, and wait for their ends."""
        assert request.batch is not None, "their ends are told to their batch"
        with self.client.queries.completions(request.batch) as completions:
            for _ in range(count):
                self.client.submit(agent, request)
            ended, ends_at = 0, perf_counter() + 60
            while ended < count:
                ended += len(completions.wait(1))
                if perf_counter() > ends_at:
                    raise RuntimeError(f"only {ended} of {count:,} runs ended within a minute")

    def start_worker(self) -> None:
        """Start one more worker process of ours."""
        self.ours.append(
            self.start(
                "sleipnir.worker.bench.engine_worker",
                "--redis",
                self.redis_url,
                "--concurrency",
                str(self.threads),
                *(() if self.ours else ("--scheduler",)),
            )
        )

    def start_baseline(self, *, results: bool) -> None:
        """Start the baseline's worker, with or without a result backend, unless it is running."""
        if results not in self.theirs:
            self.theirs[results] = self.begin_baseline(*(("--results",) if results else ()))

    def begin_baseline(self, *flags: str) -> subprocess.Popen[bytes]:
        """Start a worker of the baseline, even if there is one already."""
        return self.start(
            "sleipnir.worker.bench.baseline", self.broker_url, self.redis_url, str(THREADS), *flags
        )

    def begin_worker(self) -> subprocess.Popen[bytes]:
        """Start a worker as users do, without the scheduler."""
        return self.start(
            "sleipnir.worker", "--redis", self.redis_url, "--concurrency", str(THREADS)
        )

    def begin_scheduler(self) -> subprocess.Popen[bytes]:
        """Start a scheduler as users do, without a worker."""
        return self.start("sleipnir", "scheduler", "--redis", self.redis_url)

    def stop_workers(self) -> None:
        """Stop all workers that were started, ours and the baseline's."""
        for child in self.children:
            child.terminate()
        for child in self.children:
            child.wait()
        for workers in (self.children, self.ours, self.theirs):
            workers.clear()

    def run_baseline(self, task: str, size: int, *, results: bool) -> Sample:
        """Measure one task of the baseline, with all tasks that it leads to."""
        act = partial(self.publish, task, size, CANVAS_QUEUE if results else HOP_QUEUE)
        return self.measured(act, [self.theirs[results]])

    def publish(self, task: str, size: int, queue: str = HOP_QUEUE) -> None:
        """Have the baseline's worker execute a task, and wait until it is done."""
        # Published without a result backend, as results would have to be collected here.
        self.publisher.send_task(task, (size,), queue=queue, ignore_result=True)
        if self.redis.brpop(DONE, timeout=120) is None:
            raise RuntimeError(f"{task} did not finish")

    def start(self, module: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
        with (self.home / "workers.log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", module, *arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, **variables},
            )
        self.children.append(child)
        return child


@contextlib.contextmanager
def open_arena(threads: int = THREADS) -> Iterator[Arena]:
    """Yield a new Redis with one worker of ours; everything is stopped and removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="sleipnir-bench-") as directory:
        home = Path(directory)
        os.environ["SLEIPNIR_DATA_DIR"] = str(home / "data")
        sockets = socket_directory(home)
        private = PrivateRedis(Place(home).redis_directory, sockets / "redis.sock")
        private.directory.mkdir()
        with (home / "redis.log").open("ab") as log:
            server = subprocess.Popen(
                private.command_line(private.find_program()), stdout=log, stderr=log
            )
        try:
            private.await_ready(server)
            agents.write_agents(home / "agents", *_graphs())
            settings = load_settings({"redis_url": private.url}).values
            client = Client.connect(settings, AgentSearch((home / "agents",)))
            publisher = make_baseline(private.broker_url, private.url, THREADS, results=False)
            arena = Arena(
                client,
                client.store.client,
                private.broker_url,
                private.url,
                home,
                publisher,
                server,
                threads,
            )
            try:
                arena.start_worker()
                yield arena
            finally:
                arena.stop_workers()
        finally:
            private.shut_down()
            server.wait()
            shutil.rmtree(sockets, ignore_errors=True)


def _graphs() -> list[dict[str, Any]]:
    """Return the graphs of all cases."""
    return [
        *map(agents.linear, (LENGTH, 4, MANY_NODES)),
        agents.ending(),
        agents.fan_out(WIDTH),
        *map(agents.mapped, (ITEMS, MANY_ITEMS)),
        agents.mapped(ITEMS, CHAIN),
        agents.asking(),
        *agents.asking_models(),
        *agents.gates(),
        agents.pausing(),
        agents.telling(),
        agents.pausing_steps(STEPS),
        agents.waiting(1, 0),
        agents.waiting(CALLERS, CALL_MS),
    ]


def _cpu_seconds(processes: Sequence[subprocess.Popen[bytes]]) -> float:
    """Return the CPU time of running processes and of the children that they have waited for.

    From /proc; 0 where there is none.
    """
    total = 0
    for process in processes:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / TICKS
