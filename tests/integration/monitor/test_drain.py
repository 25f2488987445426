"""Workers are drained from their page and by the API, by those who may operate."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from sleipnir.scheduler.store.machines import Machines, WorkerState
from tests.support.engine import Engine
from tests.support.site import Answer, ServedSite

SECOND = WorkerState("<desk>", 8, slots=8, busy=0, taken=9, idle_s=3, memory_bytes=1)
FIRST = replace(SECOND, pid=7, busy=2, incarnation="a")
OTHER = replace(SECOND, pid=9, machine="cellar")


@pytest.fixture(autouse=True)
def machines(engine: Engine) -> Machines:
    found = Machines(engine.redis)
    for worker in (FIRST, SECOND, OTHER):
        found.announce(worker, with_queue=True)
    return found


def draining(machines: Machines) -> list[int]:
    """Return the pids of workers that were asked to drain."""
    return sorted(worker.pid for worker in machines.workers() if worker.draining)


def acts(site: ServedSite) -> list[tuple[str, str, str]]:
    found = site.ask("/api/v1/audit").json["acts"]
    return [(act["act"], act["target"], act["outcome"]) for act in reversed(found)]


def press(site: ServedSite, **fields: str) -> Answer:
    return site.ask("/fleet", "POST", form=fields)


def test_a_worker_is_drained_once_that_is_confirmed(site: ServedSite, machines: Machines) -> None:
    asked = press(site, worker=FIRST.name)
    before = draining(machines)

    done = press(site, worker=FIRST.name, confirmed="1")

    (question,) = re.findall(r'<section class="confirm".*?</section>', asked.text, re.DOTALL)
    assert "Drain &lt;desk&gt;/7/a?" in question
    assert "2 are running" in question
    assert (asked.status, before) == (200, [])
    assert (done.status, done.headers["Location"]) == (303, "/fleet")
    assert draining(machines) == [7]
    page = site.ask("/fleet").text
    assert page.count("draining</span>") == 1
    assert "Take visits again" in page
    assert press(site, worker=FIRST.name, undo="1").status == 303
    assert draining(machines) == []
    assert acts(site) == [("drain", FIRST.name, "done"), ("undrain", FIRST.name, "done")]


def test_the_api_drains_all_workers_of_a_machine(site: ServedSite, machines: Machines) -> None:
    def post(**body: object) -> Answer:
        return site.ask("/api/v1/fleet/drain", "POST", body=json.dumps(body))

    done = post(worker="<desk>")
    unknown = post(worker="attic")

    assert (done.status, done.json["draining"]) == (202, True)
    assert sorted(done.json["workers"]) == [FIRST.name, SECOND.name]
    assert draining(machines) == [7, 8]
    assert unknown.status == 409
    assert "no worker or machine 'attic' is running" in unknown.text
    assert post(worker="<desk>", undo=True).json["draining"] is False
    assert draining(machines) == []
    assert [act[:2] for act in acts(site)] == [
        ("drain", "<desk>"),
        ("drain", "attic"),
        ("undrain", "<desk>"),
    ]
