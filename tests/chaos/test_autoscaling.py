"""An autoscaler that does what `/api/v1/scale` says, on processes of this machine."""

from __future__ import annotations

import random
from pathlib import Path
from time import monotonic

import pytest

from sleipnir.scheduler.client.scaling import Scaling
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.submit import Request
from tests.support.workers import Worker, Workers

GRAPH = """
start: a
nodes:
  a: {type: script, script: s.sh, next: b}
  b: {type: script, script: s.sh, next: z}
  z: {type: end, output: "{{initial_prompt}}"}
"""
SECONDS = """sed -n 's/.*"initial_prompt": *"\\([0-9.]*\\)".*/\\1/p' <<< "$GRAPH_STATE\""""
FILES = {"s.sh": f"sleep $({SECONDS}) && echo '{{}}'"}
MOST, EVERY_S, RUNS = 3, 5.0, 500
SETTINGS = {"concurrency": 16, "drain_s": 60}


class Autoscaler:
    """Sets the number of workers to what is wanted, from none to three."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._running: list[Worker] = []
        self.ended: list[Worker] = []
        self.most = 0

    def turn(self, wanted: int) -> int:
        """Return how many workers there are now."""
        while len(self._running) < min(wanted, MOST):
            self._running.append(self._workers.start(**SETTINGS))
        while len(self._running) > wanted:
            worker = self._running.pop()
            worker.terminate()
            self.ended.append(worker)
        self.most = max(self.most, len(self._running))
        return len(self._running)


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_workers_come_with_the_work_and_go_with_it(workers: Workers, tmp_path: Path) -> None:
    workers.start_scheduler()
    workers.write("tested", GRAPH, FILES)
    agent = workers.client.prepare("tested")
    choice = random.Random(7)
    # Most nodes are short, and some are long.
    seconds = [choice.choice([0.05, 0.1, 0.2, 0.5, 1.0, 2.0]) for _ in range(RUNS - 4)]
    runs = [workers.client.submit(agent, Request(prompt=str(s))) for s in (*seconds, *[20] * 4)]
    scaling, autoscaler = Scaling(workers.client), Autoscaler(workers)
    over_at: float | None = None

    while True:
        open_runs = [run_id for run_id in runs if not workers.queries.run(run_id).is_final]
        if not open_runs and over_at is None:
            over_at = monotonic()
        count = autoscaler.turn(scaling.read()[None].wanted_workers)
        if over_at is not None and count == 0:
            break
        pause(EVERY_S)

    assert monotonic() - over_at < 60
    assert autoscaler.most == MOST
    assert {workers.queries.run(run_id).status for run_id in runs} == {"succeeded"}
    # Each ended by itself, after what it was doing.
    assert [worker.exit_code(90) for worker in autoscaler.ended] == [0] * len(autoscaler.ended)
