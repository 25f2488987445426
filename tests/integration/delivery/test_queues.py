"""Named queues: a node's messages go to the workers that may execute it."""

from __future__ import annotations

import pytest

from sleipnir.graphs.document.queues import DEFAULT_QUEUE
from sleipnir.scheduler.client.scaling import Scaling
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.keys import QUEUE, lane_key, machine_queue, named_queue
from sleipnir.scheduler.store.machines import MOST_QUEUES, Machines, WorkerState
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.engine import fleet_document
from sleipnir.scheduler.views.runs import runs_page
from sleipnir.scheduler.views.why import why_document
from sleipnir.worker.celery.broker import QueueOrder
from tests.integration.limits.test_cost import LINEAR_VISIT, cost_of_next_visit
from tests.support.engine import Engine
from tests.support.queue import take, waiting

NAMES = (DEFAULT_QUEUE, "gpu", "browser")

# Every second node needs a GPU.
ALTERNATING = """
start: a
initial_state: {n: 1}
nodes:
  a: {type: set, values: {x: n}, next: b}
  b: {type: set, values: {y: n}, next: c, queue: gpu}
  c: {type: set, values: {x: n + 1}, next: d}
  d: {type: set, values: {y: n + 1}, next: z, queue: gpu}
  z: {type: end, output: "{{x}}{{y}}"}
"""


@pytest.fixture(autouse=True)
def shared(engine: Engine) -> None:
    """Redis is one that several machines share."""
    engine.configure(redis_url="redis://127.0.0.1:1/0")


def work(engine: Engine, machine: str | None = None) -> list[str]:
    """Be a worker of each queue in turn until all are empty; return queue and node of visits."""
    worked = []
    while True:
        for name in NAMES:
            queue = named_queue(name) if machine is None else machine_queue(machine, name)
            if message := take(engine.redis, queue):
                break
        else:
            return worked
        engine.redis.rpush(QUEUE, message)
        (visit,) = engine.queued_visits()
        worked.append(f"{name} {visit.partition('/')[2]}")
        engine.work_once()


def test_a_message_goes_to_the_queue_of_the_node_that_is_next(engine: Engine) -> None:
    run_id = engine.submit(ALTERNATING)

    worked = work(engine)

    assert worked == ["default a", "gpu b", "default c", "gpu d", "default z"]
    assert engine.run(run_id).output == "22"


@pytest.mark.parametrize(
    ("of_graph", "submitted", "expected"),
    [
        ("", None, "default a, gpu m, browser m/0, browser m/1, gpu m, default z"),
        ("", "browser", "browser a, gpu m, browser m/0, browser m/1, gpu m, browser z"),
        ("queue: gpu", "browser", "gpu a, gpu m, browser m/0, browser m/1, gpu m, gpu z"),
        ("queue: browser", None, "browser a, gpu m, browser m/0, browser m/1, gpu m, browser z"),
    ],
)
def test_a_node_names_its_queue_or_its_graph_does_or_the_submission(
    engine: Engine, of_graph: str, submitted: str | None, expected: str
) -> None:
    graph = f"""
start: a
{of_graph}
initial_state: {{n: [1, 2]}}
nodes:
  a: {{type: set, values: {{x: n}}, next: m}}
  m: {{type: map, over: "{{{{n}}}}", as: i, branch: s, collect_into: r, next: z, queue: gpu}}
  s: {{type: set, values: {{output: i}}, queue: browser}}
  z: {{type: end}}
"""

    run_id = engine.submit(graph, queue=submitted)

    assert ", ".join(work(engine)) == expected
    assert engine.run(run_id).status == Status.SUCCEEDED


def test_child_runs_inherit_the_queue_of_the_submission_alone(engine: Engine) -> None:
    engine.write(
        "helper", "start: s\nnodes: {s: {type: set, values: {v: 1}, next: z}, z: {type: end}}"
    )
    graph = """
        start: a
        nodes:
          a: {type: agent, agent: helper, prompt: x, queue: gpu, next: z}
          z: {type: end}
        """
    engine.submit(graph)
    unnamed = work(engine)

    engine.submit(graph, queue="browser")

    assert unnamed == ["gpu a", "default s", "default z", "gpu a", "default z"]
    assert work(engine) == ["gpu a", "browser s", "browser z", "gpu a", "browser z"]


def test_a_pinned_run_waits_in_the_queues_of_its_machine(engine: Engine) -> None:
    run_id = engine.submit(ALTERNATING, machine="desk")

    assert work(engine) == []
    assert work(engine, "desk") == ["default a", "gpu b", "default c", "gpu d", "default z"]
    assert engine.run(run_id).status == Status.SUCCEEDED


def test_a_message_that_waits_in_its_queue_is_neither_repeated_nor_left_behind(
    engine: Engine,
) -> None:
    run_id = engine.submit(ALTERNATING, queue="browser", batch="nightly")

    for _ in range(3):
        engine.clock.move(60)
        engine.tick()
    engine.client.store.runs.move(run_id, "desk")

    assert not waiting(engine.redis, named_queue("browser"))
    assert len(waiting(engine.redis, machine_queue("desk", "browser"))) == 1


def test_a_retry_with_another_version_of_its_agent_waits_in_its_queues(engine: Engine) -> None:
    failing = """
        start: a
        nodes:
          a: {type: set, values: {v: "1 / 0"}, next: z, queue: gpu}
          z: {type: end}
        """
    run_id = engine.submit(failing)
    work(engine)
    assert engine.run(run_id).status == Status.FAILED

    engine.write("tested", failing.replace("1 / 0", "1").replace(", queue: gpu", ""))
    engine.client.retry(run_id, agent="current")

    assert work(engine) == ["default a", "default z"]


def test_a_step_into_another_queue_costs_what_any_step_does(engine: Engine) -> None:
    engine.submit(ALTERNATING)
    engine.work_once()
    message = take(engine.redis, named_queue("gpu"))
    engine.redis.rpush(lane_key(QUEUE, 0), message or "")

    commands, _ = cost_of_next_visit(engine)

    assert {name: commands.get(name, 0) for name in ("evalsha", "lpush", "hmget", "zadd")} == {
        name: LINEAR_VISIT[name] for name in ("evalsha", "lpush", "hmget", "zadd")
    }
    assert sum(commands.values()) <= sum(LINEAR_VISIT.values())


def test_queues_are_looked_at_by_name_and_the_two_of_a_name_take_turns() -> None:
    order = QueueOrder()
    gpu, pinned = named_queue("gpu"), machine_queue("desk", "gpu")

    order.update([gpu, pinned, QUEUE])
    order.rotate(gpu)
    after_gpu = order.consume(3)
    order.rotate(QUEUE)

    assert after_gpu == order.consume(3) == [pinned, gpu, QUEUE]
    assert [order.in_turn(turn) for turn in (0, 1)] == [[gpu, pinned, QUEUE], [pinned, gpu, QUEUE]]


@pytest.mark.parametrize("name", ["GPU", "-gpu", "", "g" * 33, "a:turns"])
def test_a_name_that_no_queue_can_have_is_refused(engine: Engine, name: str) -> None:
    with pytest.raises(SubmissionRefused, match="cannot be the name of a queue"):
        engine.submit(ALTERNATING, queue=name)


def worker(*queues: str) -> WorkerState:
    return WorkerState(
        "desk", 7, slots=8, busy=1, taken=9, idle_s=1.0, memory_bytes=1, queues=queues
    )


def test_a_run_says_that_nobody_serves_the_queue_of_its_node(engine: Engine) -> None:
    machines = Machines(engine.redis)
    machines.announce(worker(DEFAULT_QUEUE), with_queue=True)
    run_id = engine.submit(ALTERNATING)
    before = engine.client.waits_for([engine.run(run_id)])

    engine.work_once()

    held = "waits for a worker of queue 'gpu'; none is running"
    run = engine.run(run_id)
    assert before == {}
    assert engine.client.waits_for([run]) == {run_id: held}
    assert [why["reason"] for why in why_document(engine.client, run)["blocks"]] == [held]
    assert [row["waits_for"] for row in runs_page(engine.client, RunFilter(), limit=9)["runs"]] == [
        held
    ]
    assert fleet_document(engine.client)["unserved"] == ["gpu"]
    both = worker("gpu", DEFAULT_QUEUE)
    machines.announce(both, with_queue=True)
    assert engine.client.waits_for([run]) == {}
    machines.leave(both)
    assert engine.client.waits_for([run]) == {run_id: held}


def test_runs_that_have_ended_wait_for_no_queue(engine: Engine) -> None:
    Machines(engine.redis).announce(worker(DEFAULT_QUEUE), with_queue=True)
    ended = [
        engine.submit(ALTERNATING, queue="gpu"),
        engine.submit(ALTERNATING, queue="gpu", batch="b"),
    ]
    for run_id in ended:
        engine.client.cancel(run_id)

    assert Scaling(engine.client).read()["gpu"].ready == len(ended)
    assert fleet_document(engine.client)["unserved"] == []
    engine.submit(ALTERNATING, queue="gpu", batch="b")
    assert fleet_document(engine.client)["unserved"] == ["gpu"]


def test_work_is_told_by_queue(engine: Engine) -> None:
    Machines(engine.redis).announce(worker("gpu"), with_queue=True)
    engine.submit(ALTERNATING, queue="gpu", machine="desk")
    engine.submit(ALTERNATING)

    found = Scaling(engine.client).read()

    figures = {name: (each.ready, each.running, each.workers) for name, each in found.items()}
    assert figures == {None: (2, 1, 1), "gpu": (1, 1, 1), DEFAULT_QUEUE: (1, 0, 0)}


def test_a_message_for_one_of_many_machines_is_found(engine: Engine) -> None:
    engine.submit(ALTERNATING, machine="m500")
    queries = engine.client.queries

    found = queries.queues([f"m{n}" for n in range(1_000)], [DEFAULT_QUEUE], queries.now_ms())

    assert {name: queue.length for name, queue in found.items() if queue.length} == {
        machine_queue("m500"): 1
    }
    assert len(found) == 1_001


def test_an_engine_has_so_many_queues(engine: Engine) -> None:
    for number in range(MOST_QUEUES - 1):
        engine.client.queue_names.note([f"q{number}"])

    with pytest.raises(SubmissionRefused, match=f"have named {MOST_QUEUES} queues lately"):
        engine.submit(ALTERNATING)
    assert not engine.newest_runs()
