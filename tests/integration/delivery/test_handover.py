"""Which message a worker takes from the reply of a commit instead of asking for it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sleipnir.scheduler.store.keys import QUEUE, lane_key, machine_queue
from sleipnir.scheduler.store.visits import Taker
from sleipnir.worker.celery import strategy
from sleipnir.worker.delivery.handover import handover
from sleipnir.worker.delivery.run_visit import run_visit
from tests.support.engine import Engine
from tests.support.runs import RUN, go_to, started

OWN = f"{QUEUE} {machine_queue('here')}"

THREE_WORDS = """
start: a
initial_state: {first: one}
nodes:
  a: {type: set, values: {second: "'two'"}, next: b}
  b: {type: set, values: {words: "first + ' ' + second + ' three'"}, next: z}
  z: {type: end, output: "{{words}}"}
"""


@pytest.fixture
def run_id(engine: Engine) -> Iterator[str]:
    """A run whose first visit was committed by a worker that begins the next one."""
    run_id = engine.submit(THREE_WORDS)
    handover.queues = OWN
    assert engine.work_once()
    handover.queues = ""
    yield run_id
    handover.message = handover.begun = None


def go_on(engine: Engine) -> None:
    """Run the visit of the message handed over."""
    assert handover.message is not None
    run_visit(engine.services, *json.loads(json.loads(handover.message)["body"])[0])


def committed(engine: Engine, *nodes: str, queues: str = OWN) -> list[str] | None:
    """The arguments of the message that the first step's commit hands over."""
    lease = started(engine)
    assert engine.pop() is not None
    message = engine.store.visits.advance(
        lease, 1, go_to(*nodes), cap=9, window=8, taker=Taker(queues)
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


def test_the_visit_of_a_message_handed_over_begins_with_the_commit(
    engine: Engine, run_id: str
) -> None:
    engine.redis.config_resetstat()

    go_on(engine)

    assert engine.redis.info("commandstats")["cmdstat_evalsha"]["calls"] == 1  # the commit
    engine.drive()
    assert engine.run(run_id).output == "one two three"


def test_a_node_that_reads_the_whole_state_sees_what_the_commit_wrote(engine: Engine) -> None:
    graph = THREE_WORDS.replace(
        """{type: set, values: {words: "first + ' ' + second + ' three'"}, next: z}""",
        "{type: script, script: b.sh, next: z}",
    )
    run_id = engine.submit(graph, {"b.sh": """echo "{\\"words\\": $GRAPH_STATE}" """})
    handover.queues = OWN
    engine.work_once()
    handover.queues = ""

    go_on(engine)

    engine.drive()
    seen = json.loads(engine.run(run_id).output or "")
    assert seen == {"first": "one", "second": "two", "initial_prompt": ""}


def test_a_worker_that_stops_gives_back_the_visit_that_has_begun(
    engine: Engine, run_id: str
) -> None:
    engine.services.leases.closed = True
    go_on(engine)
    assert engine.queued_visits() == ["2/b"]

    engine.services.leases.closed = False
    engine.drive()
    assert engine.run(run_id).output == "one two three"


def test_a_worker_that_dies_loses_no_visit_that_has_begun(engine: Engine, run_id: str) -> None:
    handover.message = handover.begun = None
    assert engine.queued_visits() == []

    engine.clock.move(engine.store.settings.lease_s + 1)
    engine.tick()
    engine.drive()

    assert engine.run(run_id).output == "one two three"


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
