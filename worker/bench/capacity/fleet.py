"""The case `fleet`: what a large number of workers costs those who are none."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.worker.bench.arena import Arena
from sleipnir.worker.bench.monitor_client import MeasuredMonitor
from sleipnir.worker.bench.rows import Row, Sample, row
from sleipnir.worker.monitor.metrics import KEPT_S

WORKERS = 1_000  # made up, each on a machine of its own
SUBMISSIONS = 50
_SCRAPES = 3
_SCRAPE_MS = 50  # at most


def fleet(arena: Arena, rounds: int) -> Iterator[Row]:
    """Submissions and a scrape of the monitor, without other workers and with a thousand."""
    agent = arena.prepare("linear-4")
    arena.stop_workers()  # which would execute the runs of either side at times
    _submitted(arena, agent)
    alone = [_submitted(arena, agent) for _ in range(rounds)]
    machines = Machines(arena.redis)
    for number in range(WORKERS):
        made_up = WorkerState(f"machine-{number}", 7, 32, 4, 9, 1.0, 2**27, f"{number:08x}")
        machines.announce(made_up, with_queue=True)
    many = [_submitted(arena, agent) for _ in range(rounds)]
    yield row("submit, without other workers", "run", SUBMISSIONS, alone, alone)
    yield row(f"submit, with {WORKERS:,}", "run", SUBMISSIONS, many, alone)
    server = MeasuredMonitor.start(arena)
    scrapes = [server.get("/metrics")]
    while len(scrapes) < min(rounds, _SCRAPES):
        pause(KEPT_S)
        scrapes.append(server.get("/metrics"))
    yield row(f"/metrics, with {WORKERS:,}", "scrape", 1, scrapes, None).within(_SCRAPE_MS)


def _submitted(arena: Arena, agent: PreparedAgent) -> Sample:
    """Measure submissions, each of which learns whether there is a worker, as commands do."""
    machines, began = Machines(arena.redis), perf_counter()
    for _ in range(SUBMISSIONS):
        arena.client.submit(agent, Request())
        machines.any_work()
    return Sample(perf_counter() - began, 0.0)
