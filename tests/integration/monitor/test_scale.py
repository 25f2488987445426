"""How much work there is, as autoscalers are told."""

from __future__ import annotations

import random
from functools import partial

import pytest

from sleipnir.scheduler.client.scaling import Scaling
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.keys import QUEUE, machine_queue
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.scheduler.views.engine import scale_document
from tests.support.engine import Engine
from tests.support.queue import take, waiting
from tests.support.site import ServedSite

GRAPH = """
start: a
initial_state: {none: []}
nodes:
  a: {type: map, over: "{{none}}", as: item, branch: s, collect_into: x, next: [b, c]}
  b: {type: map, over: "{{none}}", as: item, branch: s, collect_into: y, next: z}
  c: {type: map, over: "{{none}}", as: item, branch: s, collect_into: w, next: z}
  s: {type: script, script: s.sh}
  z: {type: approval, question: Sure?, options: ["yes"], routes: {"yes": end}, on_other: end}
  end: {type: end}
"""
FILES = {"s.sh": "true"}
MACHINE = "desk"
QUEUES = (QUEUE, machine_queue(MACHINE))


def worker(busy: int = 0) -> WorkerState:
    return WorkerState(
        machine=MACHINE, pid=7, slots=8, busy=busy, taken=9, idle_s=1.0, memory_bytes=2**20
    )


@pytest.mark.parametrize("seed", range(4))
def test_what_is_ready_is_what_workers_take(engine: Engine, seed: int) -> None:
    choice = random.Random(seed)
    Machines(engine.redis).announce(worker(), with_queue=True)
    engine.write("tested", GRAPH, FILES)
    agent = engine.client.prepare("tested")
    for _ in range(25):
        for _ in range(choice.randint(0, 3)):
            batch = choice.choice([None, None, "x", "y"])
            machine = choice.choice([None, MACHINE])
            engine.client.submit(agent, Request(batch=batch, machine=machine))
        for _ in range(choice.randint(0, 5)):
            engine.work_once()
        if choice.random() < 0.3:
            take_all(engine)

        ready = Scaling(engine.client).read()[None].ready

        assert ready == sum(len(waiting(engine.redis, queue)) for queue in QUEUES)
    assert Scaling(engine.client).read()[None].ready == take_all(engine)


def take_all(engine: Engine) -> int:
    """Take as many messages as there are, as workers do; return how many there were."""
    return sum(len(list(iter(partial(take, engine.redis, queue), None))) for queue in QUEUES)


def test_an_autoscaler_is_told_what_it_needs(engine: Engine) -> None:
    for _ in range(3):
        engine.submit(GRAPH, FILES)
    Machines(engine.redis).announce(worker(busy=6), with_queue=True)

    with ServedSite(engine.client) as site:
        found = site.ask("/api/v1/scale?queue=default").json

    assert found.pop("oldest_s") >= 0
    assert found == {
        "queue": "default",
        "work": 9,
        "ready": 3,
        "running": 6,
        "slots": 8,
        "workers": 1,
        "slots_per_worker": 8,
        "wanted_workers": 2,
    }


def test_a_queue_without_workers_and_runs_has_no_work(engine: Engine) -> None:
    with ServedSite(engine.client) as site:
        found = site.ask("/api/v1/scale?queue=gpu")
        wrong = site.ask("/api/v1/scale?queue=GPU!")

    assert found.status == 200
    assert found.json == {
        "queue": "gpu",
        "work": 0,
        "ready": 0,
        "running": 0,
        "oldest_s": 0.0,
        "slots": 0,
        "workers": 0,
        "slots_per_worker": engine.client.store.settings.concurrency,
        "wanted_workers": 0,
    }
    assert wrong.status == 400
    assert "queue must be a name" in wrong.json["error"]["message"]


def test_it_is_read_at_most_once_in_two_seconds(engine: Engine) -> None:
    scaling = Scaling(engine.client)
    engine.submit(GRAPH, FILES)
    before = scaling.read()
    engine.submit(GRAPH, FILES)

    assert scaling.read() is before


def test_with_another_broker_it_is_not_known(engine: Engine) -> None:
    engine.configure(broker_url="amqp://elsewhere")

    assert scale_document(engine.client, Scaling(engine.client)) is None
