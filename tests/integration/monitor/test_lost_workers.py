"""Workers that were lost leave a trace: on pages, in the audit log, in the runs taken over."""

from __future__ import annotations

import pytest

from sleipnir.scheduler.runs.events import WorkerLost
from sleipnir.scheduler.service.sweeps.workers import note_lost_workers
from sleipnir.scheduler.store.keys import machine_queue
from sleipnir.scheduler.store.machines import Machines, WorkerState
from tests.support.engine import Engine
from tests.support.silent_workers import fall_silent
from tests.support.site import ServedSite

GRAPH = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end}
"""
SILENT_S = 30


@pytest.fixture
def workers(engine: Engine) -> tuple[WorkerState, WorkerState]:
    """One that lives, and one that has not been heard of for a while."""
    alive = WorkerState("alpha", 7, 4, 0, 3, 1.0, 1 << 20, "aaaa1111")
    lost = WorkerState("beta", 20_044, 4, 2, 9, 1.0, 1 << 20, "bbbb2222")
    Machines(engine.redis).announce(alive, with_queue=True)
    fall_silent(engine.redis, lost, SILENT_S)
    return alive, lost


def test_pages_show_which_workers_were_lost(
    engine: Engine, site: ServedSite, workers: tuple[WorkerState, WorkerState]
) -> None:
    alive, lost = workers
    fleet = site.ask("/api/v1/fleet").json
    page, now = site.ask("/fleet").text, site.ask("/now").text
    Machines(engine.redis).announce(lost, with_queue=True)
    back = site.ask("/api/v1/fleet").json

    assert [each["name"] for each in fleet["workers"]] == [alive.name]
    assert [each["name"] for each in fleet["lost"]] == [lost.name]
    assert fleet["lost"][0]["silent_s"] == pytest.approx(SILENT_S, abs=10)
    assert "Lost in 24 hours" in page
    assert "bbbb2222" in page
    assert "1 lost in 24 h" in now
    assert (len(back["workers"]), back["lost"]) == (2, [])


def test_lost_workers_are_noted_once(
    engine: Engine, site: ServedSite, workers: tuple[WorkerState, WorkerState]
) -> None:
    noted = [note_lost_workers(engine.store) for _ in range(2)]

    (act,) = site.ask("/api/v1/audit").json["acts"]
    assert noted == [1, 0]
    assert (act["who"], act["act"], act["target"]) == ("scheduler", "worker lost", workers[1].name)
    assert "it was executing 2 visits" in act["detail"]


def test_nobody_waits_for_the_machine_of_a_lost_worker(
    engine: Engine, workers: tuple[WorkerState, WorkerState]
) -> None:
    alive, lost = workers
    machines = Machines(engine.redis)
    pinned = {machine_queue(worker.machine) for worker in workers}

    note_lost_workers(engine.store)

    assert machines.without_worker([alive.machine, lost.machine]) == {lost.machine}
    assert machines.unserved(pinned) == {machine_queue(lost.machine)}
    assert machines.any_work()


def test_a_lost_worker_that_is_heard_of_again_serves_its_machine_at_once(
    engine: Engine, workers: tuple[WorkerState, WorkerState]
) -> None:
    machines, (_, lost) = Machines(engine.redis), workers
    note_lost_workers(engine.store)

    machines.beat(lost, with_queue=True)

    assert machines.have_worker(lost.machine)
    assert not machines.unserved(lost.served())


def test_a_worker_that_ends_is_not_lost(
    engine: Engine, site: ServedSite, workers: tuple[WorkerState, WorkerState]
) -> None:
    Machines(engine.redis).leave(workers[1])

    assert site.ask("/api/v1/fleet").json["lost"] == []


def test_a_run_tells_that_its_worker_was_lost(engine: Engine, site: ServedSite) -> None:
    run_id = engine.submit(GRAPH, {"s.sh": "echo '{}'"})
    engine.begin(run_id, engine.pop()[1], "bbbb2222.1")
    engine.clock.move(60)
    engine.tick()
    engine.drive()

    assert engine.events(run_id, WorkerLost) == [WorkerLost("s", "bbbb2222")]
    assert "s: worker bbbb2222 was lost" in site.ask(f"/runs/{run_id}/events").text
    assert engine.run(run_id).status == "succeeded"
