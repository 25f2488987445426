"""Schedulers and workers are killed while events are sent; every event arrives."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest

from tests.support.hooks import hook_key, verified
from tests.support.services import Fleet
from tests.support.wait import wait_until
from tests.support.web_server import Page, WebServer

GRAPH = """
start: done
nodes: {done: {type: end, output: "{{initial_prompt}}"}}
"""
RUNS, KILLS = 60, 10


@pytest.mark.chaos
@pytest.mark.timeout(400)
def test_no_event_is_lost_whoever_dies(tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    with WebServer({"/in": Page("thanks")}) as receiver, Fleet(tmp_path) as fleet:
        fleet.sleipnir.environment |= {
            "SLEIPNIR_HOOK_KEY_FILE": hook_key(tmp_path),
            "SLEIPNIR_ALLOW_PRIVATE_ADDRESSES": "true",
        }
        fleet.sleipnir.write("tested", GRAPH)
        for _ in range(2):
            fleet.start_scheduler()
            fleet.start_worker()
        made = fleet.sleipnir("hook", "create", "ops", receiver.url("/in"))
        secret, run_ids = made.stdout.strip(), set[str]()

        for _kill in range(KILLS):
            for _ in range(RUNS // KILLS):
                run_ids.add(fleet.sleipnir("submit", "tested").stdout.strip())
            if chance.random() < 0.7:
                fleet.schedulers.pop(chance.randrange(2)).kill()
                fleet.start_scheduler()
            else:
                fleet.workers.pop(chance.randrange(2)).kill()
                fleet.start_worker()

        def arrived() -> dict[str, set[str]]:
            """The ids of the events that have come, by run."""
            found = defaultdict[str, set[str]](set)
            for visit in list(receiver.visits):
                document = verified(visit, secret)
                found[document["data"]["run_id"]].add(visit.headers["webhook-id"])
            return found

        wait_until(
            lambda: arrived().keys() >= run_ids, f"every event has arrived, seed {seed}", 200
        )

        assert arrived().keys() == run_ids
        assert all(len(ids) == 1 for ids in arrived().values())
