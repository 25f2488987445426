"""A long time under load with rolling restarts; `make soak` runs it."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import pytest

from scheduler.connection import connect
from tests.support.invariants import assert_consistent
from tests.support.processes import children_of
from tests.support.services import Fleet, Service

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


@dataclass
class Samples:
    """What was measured as time went by."""

    redis_bytes: list[int] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    worker_kib: list[int] = field(default_factory=list)

    def growth(self, values: list[int]) -> float:
        """The last quarter beside the second, once everything has warmed up."""
        quarter = len(values) // 4
        early, late = values[quarter : 2 * quarter], values[-quarter:]
        return statistics.median(late) / statistics.median(early)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Fleet(tmp_path) as fleet:
        # Finished runs go after a minute: what stays then is what leaks.
        fleet.sleipnir.environment["SLEIPNIR_RETENTION_S"] = "60"
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
    samples, rounds, restarts = Samples(), 0, 0
    with connect(fleet.redis.url) as client:
        while monotonic() < ends_at:
            batch = fleet.sleipnir.start("batch", "soaked", str(written(fleet, rounds)), "-q")
            restarts += restarted(fleet, rng)
            output, errors = batch.communicate(timeout=100)
            assert batch.returncode == 0, errors
            assert output.count('"succeeded"') == LINES
            rounds += 1
            samples.redis_bytes.append(int(client.info("memory")["used_memory"]))
            samples.keys.append(int(client.dbsize()))
            samples.worker_kib.append(resident_kib(fleet.workers[0]))
        assert_consistent(client, runs=LINES)

    effects = (fleet.sleipnir.project / "effects").read_text().split()
    print(json.dumps({"rounds": rounds, "restarts": restarts, **vars(samples)}))  # noqa: T201 - the figures are the point
    assert len(effects) == len(set(effects)) == rounds * LINES * PROGRAMS
    assert restarts >= rounds
    assert samples.growth(samples.redis_bytes) < 1.2
    assert samples.growth(samples.keys) < 1.2
    assert samples.growth(samples.worker_kib) < 1.1


def written(fleet: Fleet, number: int) -> Path:
    """A batch's input."""
    lines = [{"id": f"{number}-{line}", "answers": {"ask": ["x"]}} for line in range(LINES)]
    file = fleet.sleipnir.project / "input.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def restarted(fleet: Fleet, rng: random.Random) -> int:
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
    return 1


def resident_kib(worker: Service) -> int:
    """The memory of the process that executes nodes."""
    (executing,) = children_of(worker.pid)
    status = Path(f"/proc/{executing}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])
