"""A long time under load with rolling restarts; `make soak` runs it."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, cast

import pytest
import redis

from sleipnir.scheduler.runs.ids import PARTITIONS
from sleipnir.scheduler.store.connection import connect
from tests.support.invariants import assert_consistent
from tests.support.processes import children_of
from tests.support.services import Fleet, Service
from tests.support.wait import wait_until

LINES = 100
# A program, a fan-out to a map and a program, their join, and an answered question.
GRAPH = """
start: work
initial_state: {list: [1, 2, 3]}
nodes:
  work: {type: script, script: work.sh, next: [left, right]}
  left: {type: map, over: "{{list}}", as: item, branch: one, collect_into: got, next: ask}
  one: {type: script, script: work.sh, state_updates: {output: "{{item}}"}}
  right: {type: script, script: work.sh, next: ask, state_updates: {}}
  ask: {type: input, question: "?", next: done}
  done: {type: end, output: "{{got}}"}
"""
WORK = 'echo "$SLEIPNIR_IDEMPOTENCY_KEY" >> effects; echo "{}"'
PROGRAMS = 5  # that one run starts


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        # Finished runs are soon forgotten.
        fleet.sleipnir.environment["SLEIPNIR_RETENTION_S"] = "20"
        fleet.sleipnir.write("soaked", GRAPH, {"work.sh": WORK})
        for _ in range(2):
            fleet.start_scheduler()
            fleet.start_worker()
        yield fleet


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_memory_and_keys_stay_flat_and_a_restart_repeats_nothing(
    fleet: Fleet, rng: random.Random
) -> None:
    ends_at = monotonic() + 60 * float(os.environ["SOAK_MINUTES"])
    rounds, worker_kib = 0, []
    with connect(fleet.redis.url) as client:
        before = usage_of(client)
        while monotonic() < ends_at:
            batch = fleet.sleipnir.start("batch", "soaked", str(written(fleet, rounds)), "-q")
            restart_one(fleet, rng)
            output, errors = batch.communicate(timeout=100)
            assert batch.returncode == 0, errors
            assert output.count('"succeeded"') == LINES
            rounds += 1
            worker_kib.append(resident_kib(fleet.workers[0]))
        assert_consistent(client, runs=LINES)
        # What stays when all runs have been forgotten is what leaks.
        wait_until(lambda: next(client.scan_iter("*:run:*"), None) is None, "runs to go", 100)
        after = usage_of(client)

    effects = (fleet.sleipnir.project / "effects").read_text().split()
    growth = growth_of(worker_kib)
    print(f"{rounds} rounds, Redis {before} -> {after}, worker {worker_kib[-1]} KiB, x {growth}")  # noqa: T201 - the figures are the point
    assert len(effects) == len(set(effects)) == rounds * LINES * PROGRAMS
    assert after[0] < before[0] + 4 * 1024 * 1024
    assert after[1] < 6 * PARTITIONS
    assert growth < 1.1


def usage_of(client: redis.Redis) -> tuple[int, int]:
    """What Redis holds: bytes, keys."""
    info = cast(dict[str, Any], client.info("memory"))
    return int(info["used_memory"]), cast(int, client.dbsize())


def growth_of(values: Sequence[int]) -> float:
    """The last quarter beside the second, once everything has warmed up."""
    quarter = len(values) // 4
    early, late = values[quarter : 2 * quarter], values[-quarter:]
    return statistics.median(late) / statistics.median(early)


def written(fleet: Fleet, number: int) -> Path:
    """A batch's input."""
    lines = [{"id": f"{number}-{line}", "answers": {"ask": ["x"]}} for line in range(LINES)]
    file = fleet.sleipnir.project / "input.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def restart_one(fleet: Fleet, rng: random.Random) -> None:
    """Replace a service as an upgrade does; the first worker stays, to be measured."""
    services, start = rng.choice(
        [
            (fleet.workers, fleet.start_worker),
            (fleet.workers, fleet.start_worker),
            (fleet.schedulers, fleet.start_scheduler),
        ]
    )
    start()
    old = services.pop(1)
    os.kill(old.pid, signal.SIGTERM)
    old.wait()


def resident_kib(worker: Service) -> int:
    """The memory of the process that executes nodes."""
    (executing,) = children_of(worker.pid)
    status = Path(f"/proc/{executing}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
