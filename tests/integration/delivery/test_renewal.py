"""Worker processes that have done, or hold, as much as one may are replaced by others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from sleipnir.scheduler.embedded.renewal import Renewal
from sleipnir.scheduler.embedded.supervisor import ChildProcess, Supervisor
from sleipnir.scheduler.embedded.worker_health import WorkerHealth
from sleipnir.scheduler.runs.submit import Request
from tests.support.health_checks import get, is_well
from tests.support.sentinels import free_ports
from tests.support.services import Tries
from tests.support.wait import wait_until
from tests.support.workers import Workers

GRAPH = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""
SHORT = """
echo "$PPID $SLEIPNIR_IDEMPOTENCY_KEY" >> tries
echo '{}'
"""
LONG = """
echo "$PPID $SLEIPNIR_IDEMPOTENCY_KEY" >> tries
until test -e go; do sleep 0.05; done
echo '{}'
"""


class Renewed:
    """A supervisor of one process that is renewed, and what was executed there."""

    def __init__(self, workers: Workers, directory: Path, **settings: int) -> None:
        self._workers, self.tries = workers, Tries(directory / "workdir")
        workers.write("short", GRAPH, {"s.sh": SHORT})
        workers.write("long", GRAPH, {"s.sh": LONG})
        (self.port,) = free_ports(1)
        address = f"127.0.0.1:{self.port}"
        workers.start_supervised(1, health_address=address, **settings)
        wait_until(lambda: is_well(self.port, "/readyz"), "it is ready")

    def submit(self, agent: str) -> str:
        request = Request(workdir=str(self.tries.directory))
        return self._workers.client.submit(agent, request)

    def wait(self, run_id: str) -> None:
        assert self._workers.client.wait(run_id, timeout_s=60).status == "succeeded"

    def run_until(self, processes: int) -> None:
        """Execute runs until so many processes have executed some."""
        while len(set(self.tries.workers())) < processes:
            self.wait(self.submit("short"))

    @contextmanager
    def always_ready(self) -> Iterator[None]:
        """Check that it is ready all the time."""
        answers, is_over = list[tuple[int, str]](), threading.Event()

        def look() -> None:
            while not is_over.wait(0.02):
                answers.append(get(self.port, "/readyz"))

        looking = threading.Thread(target=look)
        looking.start()
        try:
            yield
        finally:
            is_over.set()
            looking.join()
        assert {status for status, _ in answers} == {200}, answers


def test_a_process_that_has_begun_its_visits_is_replaced_without_a_gap(
    workers: Workers, tmp_path: Path
) -> None:
    renewed = Renewed(workers, tmp_path, max_visits=4)
    with renewed.always_ready():
        renewed.run_until(processes=3)

    by = renewed.tries.workers()
    assert min(map(by.count, by[:-1])) >= 4
    sample = f'visits_total{{queue="default",type="script",outcome="done"}} {len(by)}\n'
    wait_until(lambda: sample in get(renewed.port, "/metrics")[1], "no process is forgotten")


def test_a_process_that_is_too_large_ends_what_it_does_while_the_next_one_works(
    workers: Workers, tmp_path: Path
) -> None:
    renewed = Renewed(workers, tmp_path, max_memory_mb=1, drain_s=60)
    long = renewed.submit("long")
    renewed.tries.wait_for()
    renewed.run_until(processes=2)

    renewed.tries.let_go()
    renewed.wait(long)

    keys = renewed.tries.keys()
    assert len(set(keys)) == len(keys)


class Drained(WorkerHealth):
    """Of a worn worker whose successors are asked to drain as soon as they start."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__(supervisor, lease_s=30)
        self._ends = supervisor
        self.started = list[str]()

    def start(self, child: ChildProcess, *, is_spare: bool = False) -> None:
        super().start(child, is_spare=is_spare)
        self.started.append(child.name)
        if len(self.started) == 3:
            self._ends.stop()

    def worn(self) -> dict[str, str]:
        return {"worker 1": "is worn"}


def test_a_successor_that_is_not_wanted_has_a_successor() -> None:
    supervisor = Supervisor(grace_s=10)
    health = Drained(supervisor)
    first = ChildProcess("worker 1", ["/bin/sh", "-c", "sleep 600"], is_over_with=10)
    health.start(first)
    as_drained = replace(first, argv=["/bin/sh", "-c", "exit 10"])
    Renewal(supervisor, health, [as_drained]).start()
    supervisor.call_in(30, supervisor.stop)

    supervisor.run()
    for name in health.started[::2]:  # the second was forgotten
        health.forget(name)

    assert health.started == ["worker 1", "worker 2", "worker 3"]
