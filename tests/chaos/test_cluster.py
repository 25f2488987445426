"""Primaries of a cluster are killed, and slots are moved, while runs go on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from sleipnir.scheduler.store.cluster.layout import TAGS
from sleipnir.scheduler.store.cluster.nodes import slot_of
from sleipnir.scheduler.store.connection import connect
from tests.support.cluster import Cluster
from tests.support.fleet import Fleet, Load, under_fire
from tests.support.invariants import assert_consistent
from tests.support.workers import Workers


@pytest.mark.parametrize(
    ("runs", "length", "faults"),
    [
        pytest.param(30, 5, 3, id="short"),
        pytest.param(300, 12, 12, id="long", marks=(pytest.mark.chaos, pytest.mark.timeout(400))),
    ],
)
def test_every_run_ends_once_whatever_happens_to_the_cluster(
    runs: int, length: int, faults: int, tmp_path: Path, own_directories: None, rng: random.Random
) -> None:
    with (
        Cluster(tmp_path / "cluster") as cluster,
        connect(cluster.url, retry_outage=True) as client,
        Workers(cluster.url, client, tmp_path) as workers,
    ):
        fleet = Fleet(workers, rng, 2, "--scheduler")
        load = Load(workers, runs, length)

        def kill_primary() -> None:
            port = rng.choice(cluster.primaries())
            cluster.fail_over(port)
            cluster.rejoin(port)

        def move_slot() -> None:
            slot = slot_of(rng.choice(TAGS))
            others = {*cluster.primaries()} - {cluster.owner_of(slot)}
            cluster.move_slot(slot, rng.choice(sorted(others)))

        under_fire(
            load.is_over,
            [move_slot, kill_primary, fleet.kill_one],
            every_s=0.5,
            at_least=faults,
            timeout_s=300,
        )

        load.check()
        assert_consistent(client, runs=runs)
