"""Runs that need the files of one machine."""

from __future__ import annotations

from pathlib import Path

from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.keys import QUEUE, machine_key, machine_queue
from tests.support.engine import Engine
from tests.support.queue import lose_all, take, waiting

GRAPH = """
start: a
nodes:
  a: {type: agent, agent: helper, prompt: x, next: z}
  z: {type: end, output: done}
"""
HELPER = """
start: i
nodes:
  i: {type: input, question: "well?", next: z}
  z: {type: end, output: ok}
"""


def lengths(engine: Engine, machine: str) -> tuple[int, int]:
    """Messages for everybody, and for one machine."""
    return len(waiting(engine.redis)), len(waiting(engine.redis, machine_queue(machine)))


def work(engine: Engine, machine: str) -> None:
    """Be a worker of that machine until its queue is empty."""
    while message := take(engine.redis, machine_queue(machine)):
        engine.redis.rpush(QUEUE, message)
        engine.work_once()


def test_all_messages_of_a_pinned_run_and_its_children_go_to_its_machine(engine: Engine) -> None:
    engine.write("helper", HELPER)
    run_id = engine.submit(GRAPH, machine="desk")

    before = lengths(engine, "desk")
    work(engine, "desk")
    waiting = engine.run(run_id).status
    engine.client.answer(run_id, "yes")
    after = lengths(engine, "desk")
    work(engine, "desk")

    assert (before, after) == ((0, 1), (0, 1))
    assert waiting == Status.WAITING
    assert engine.run(run_id).output == "done"


def test_a_message_that_still_waits_on_its_machine_is_not_repeated(engine: Engine) -> None:
    engine.submit("start: z\nnodes: {z: {type: end}}\n", machine="desk")

    for _ in range(3):
        engine.clock.move(60)
        engine.tick()

    assert lengths(engine, "desk") == (0, 1)


def test_a_lost_message_is_published_to_the_same_machine_again(engine: Engine) -> None:
    engine.submit("start: z\nnodes: {z: {type: end}}\n", machine="desk")
    lose_all(engine.redis, machine_queue("desk"))

    engine.clock.move(60)
    engine.tick()

    assert lengths(engine, "desk") == (0, 1)


def test_a_machine_without_a_worker_is_deserted(engine: Engine, tmp_path: Path) -> None:
    run_id = engine.submit("start: z\nnodes: {z: {type: end}}\n", machine="desk")
    runs = [engine.run(run_id)]

    before = engine.client.deserted_machines(runs)
    engine.redis.set(machine_key("desk"), "1", ex=60)

    assert (before, engine.client.deserted_machines(runs)) == ({"desk"}, set())
