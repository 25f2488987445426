"""Schedulers and workers die at exact places while events are sent; every event arrives."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from pathlib import Path

import pytest

from sleipnir.scheduler.store.failpoints import VARIABLE
from tests.support.hooks import hook_key, verified
from tests.support.services import Fleet, Service
from tests.support.wait import wait_until
from tests.support.web_server import Page, Visit, WebServer

GRAPH = """
start: done
nodes: {done: {type: end, output: "{{initial_prompt}}"}}
"""
# One of a worker and one of a scheduler at a time. `remove` follows the reply to a request.
PLACES = (
    ("before.begin", "before.take"),
    ("after.begin", "after.take"),
    ("before.execute", "after.record"),
    ("before.advance", "before.remove"),
    ("after.advance", "after.remove"),
)
RUNS_EACH = 100
# A hook for each, as one is told of five events a second.
HOOKS = {"run.started": "starts", "run.succeeded": "ends", "batch.finished": "batches"}


@pytest.mark.chaos
@pytest.mark.timeout(900)
def test_no_event_is_lost_wherever_who_tells_it_dies(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    with WebServer({"/in": Page("thanks")}) as receiver, Fleet(tmp_path) as fleet:
        secrets = prepare(fleet, tmp_path, receiver.url("/in"))

        for number, (in_a_worker, in_the_scheduler) in enumerate(PLACES):
            worker = fleet.start_worker(**{VARIABLE: f"{in_a_worker}:kill:{chance.randint(5, 30)}"})
            nth = 1 if in_the_scheduler == "after.record" else chance.randint(3, 10)
            scheduler = fleet.start_scheduler(**{VARIABLE: f"{in_the_scheduler}:kill:{nth}"})
            submit(fleet, f"batch {number}")
            await_death(worker, f"{in_a_worker} was reached, seed {seed}")
            worker.kill()
            successor = fleet.start_worker()
            scheduler.wait()
            successor.kill()
        fleet.start_worker()
        for _ in range(2):
            fleet.start_scheduler()

        listed = fleet.sleipnir("ps", "--json", "--limit", "1000").stdout.splitlines()
        run_ids = {json.loads(line)["run_id"] for line in listed}
        expected = {(event, run_id) for event in list(HOOKS)[:2] for run_id in run_ids}
        expected |= {("batch.finished", f"batch {number}") for number in range(len(PLACES))}
        wait_until(
            lambda: arrived(receiver, secrets).keys() >= expected,
            f"every event has arrived, seed {seed}",
            400,
        )

        found = arrived(receiver, secrets)
        assert len(run_ids) == RUNS_EACH * len(PLACES)
        assert found.keys() == expected
        # Who is told again knows it by the id.
        assert all(len(ids) == 1 for ids in found.values())
        assert len(receiver.visits) > len(expected)


def prepare(fleet: Fleet, directory: Path, url: str) -> dict[str, str]:
    """Make an agent and hooks; return the hooks' secrets by event."""
    fleet.sleipnir.environment |= {
        "SLEIPNIR_HOOK_KEY_FILE": hook_key(directory),
        "SLEIPNIR_ALLOW_PRIVATE_ADDRESSES": "true",
        "SLEIPNIR_MAX_DELIVERIES": "1000",
    }
    fleet.sleipnir.write("tested", GRAPH)
    return {
        event: fleet.sleipnir("hook", "create", name, url, "--event", event).stdout.strip()
        for event, name in HOOKS.items()
    }


def submit(fleet: Fleet, batch: str) -> None:
    lines = fleet.sleipnir.project / "lines.txt"
    lines.write_text("".join(f"{number}\n" for number in range(RUNS_EACH)))
    done = fleet.sleipnir("batch", "tested", str(lines), "--name", batch, "--detach")
    assert done.returncode == 0, done.stderr


def await_death(worker: Service, what: str) -> None:
    """Wait until the process of a worker was started again."""
    wait_until(lambda: worker.log.read_text().count(" ready.") > 1, what, 120)


def arrived(receiver: WebServer, secrets: dict[str, str]) -> dict[tuple[str, str], set[str]]:
    """Return the ids of the events that have come, by type and what they are about."""
    found = defaultdict[tuple[str, str], set[str]](set)
    for visit in list(receiver.visits):
        event, about = event_of(visit, secrets)
        found[event, about].add(visit.headers["webhook-id"])
    return found


def event_of(visit: Visit, secrets: dict[str, str]) -> tuple[str, str]:
    event = json.loads(visit.body)["type"]
    data = verified(visit, secrets[event])["data"]
    return event, data["batch"] if event == "batch.finished" else data["run_id"]
