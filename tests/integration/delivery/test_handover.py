"""Which message a worker takes from the reply of a commit instead of asking for it."""

from __future__ import annotations

import json

import pytest

from sleipnir.scheduler.store.keys import QUEUE, lane_key, machine_queue
from sleipnir.worker.celery import strategy
from sleipnir.worker.delivery.handover import handover
from tests.support.engine import Engine
from tests.support.runs import RUN, go_to, started

OWN = f"{QUEUE} {machine_queue('here')}"


def committed(engine: Engine, *nodes: str, queues: str = OWN) -> list[str] | None:
    """The arguments of the message that the first step's commit hands over."""
    lease = started(engine)
    assert engine.pop() is not None
    message = engine.store.visits.advance(
        lease, 1, go_to(*nodes), cap=9, window=8, queues=queues
    ).message
    return None if message is None else json.loads(json.loads(message)["body"])[0][:2]


def test_the_only_message_is_handed_over_instead_of_queued(engine: Engine) -> None:
    assert committed(engine, "a") == [RUN, "2/a"]
    assert engine.queued_visits() == []


@pytest.mark.parametrize(
    ("nodes", "queues"), [(("a", "b"), OWN), (("a",), ""), (("a",), machine_queue("here"))]
)
def test_several_messages_and_those_of_other_queues_are_queued(
    engine: Engine, nodes: tuple[str, ...], queues: str
) -> None:
    assert committed(engine, *nodes, queues=queues) is None
    assert sorted(engine.queued_visits()) == [f"2/{node}" for node in nodes]


def test_what_waits_already_comes_first(engine: Engine) -> None:
    engine.redis.lpush(lane_key(machine_queue("here"), 2), "a message")

    assert committed(engine, "a") is None
    assert engine.queued_visits() == ["2/a"]


def test_a_thread_runs_what_is_handed_to_it() -> None:
    ran, free = [], iter([OWN, OWN, ""])

    def visit(run_id: str, visit_id: str, digest: str) -> None:
        ran.append((visit_id, handover.queues))
        if handover.queues:
            body = json.dumps([[run_id, f"{len(ran) + 1}/a", digest], {}, {}])
            handover.message = json.dumps({"body": body})

    strategy._run(visit, [RUN, "1/s", "d"], lambda: ran.append(("done", "")), lambda: next(free))

    assert ran == [("1/s", OWN), ("2/a", OWN), ("3/a", ""), ("done", "")]
    assert (handover.queues, handover.message) == ("", None)
