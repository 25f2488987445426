"""Two workers that serve one queue each: a run goes back and forth, or waits for the one away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sleipnir.graphs.document.queues import DEFAULT_QUEUE
from tests.support.monitor_pages import pages, read
from tests.support.proxy import Proxy
from tests.support.services import Fleet, Service
from tests.support.wait import wait_until

GPU = "gpu"
GRAPH = """
start: a
nodes:
  a: {type: script, script: where.sh, next: b, state_updates: {a: "{{output}}"}}
  b: {type: script, script: where.sh, next: c, state_updates: {b: "{{output}}"}, queue: gpu}
  c: {type: script, script: where.sh, next: d, state_updates: {c: "{{output}}"}}
  d: {type: script, script: where.sh, next: z, state_updates: {d: "{{output}}"}, queue: gpu}
  z: {type: end, output: "{{a}} {{b}} {{c}} {{d}}"}
"""
WHERE = """echo "{\\"output\\": \\"$HERE\\"}" """
WAITS = "waits for a worker of queue 'gpu'; none is running"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A worker of the queue without a name, and the way to Redis over TCP."""
    with (
        Fleet(tmp_path_factory.mktemp("queues")) as fleet,
        Proxy(fleet.redis.socket_file) as network,
    ):
        fleet.sleipnir.environment |= {
            "SLEIPNIR_REDIS_URL": network.url,
            "SLEIPNIR_CONCURRENCY": "1",
            "SLEIPNIR_TOOL_ENV": "HERE",
        }
        fleet.sleipnir.write("alternates", GRAPH, {"where.sh": WHERE})
        fleet.start_scheduler()
        start_worker(fleet, DEFAULT_QUEUE)
        yield fleet


def start_worker(fleet: Fleet, queue: str) -> Service:
    return fleet.start_worker(SLEIPNIR_QUEUES=queue, SLEIPNIR_MACHINE=queue, HERE=queue)


def test_each_node_is_executed_by_the_worker_of_its_queue(fleet: Fleet) -> None:
    worker = start_worker(fleet, GPU)

    done = fleet.sleipnir("run", "alternates")

    assert done.stdout == "default gpu default gpu\n", done.stderr
    worker.kill()


def test_a_run_waits_for_the_worker_that_is_away_says_so_and_goes_on(fleet: Fleet) -> None:
    sleipnir = fleet.sleipnir
    run_id = sleipnir("submit", "alternates").stdout.strip()
    wait_until(lambda: WAITS in sleipnir("show", run_id).stdout, "the run waits", 60)

    told = [sleipnir("ps").stdout]
    with pages(sleipnir) as address:
        told += [
            read(f"{address}/{path}") for path in (f"runs/{run_id}", f"api/v1/runs/{run_id}/why")
        ]
    doctor = sleipnir("doctor").stdout
    worker = start_worker(fleet, GPU)

    assert [WAITS in text for text in told] == [True] * 3
    assert "runs wait for a worker of queue 'gpu'; none is running" in doctor
    assert sleipnir("watch", run_id).stdout.endswith("default gpu default gpu\n")
    assert WAITS not in sleipnir("ps").stdout
    worker.kill()
