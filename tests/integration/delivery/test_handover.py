"""Which message a worker takes from the reply of a commit instead of asking for it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import Lease
from sleipnir.scheduler.runs.plan import Branch, Plan
from sleipnir.scheduler.store.keys import QUEUE, lane_key, machine_queue
from sleipnir.scheduler.store.visits import Taker
from sleipnir.worker.celery import strategy
from sleipnir.worker.delivery.handover import handover
from sleipnir.worker.delivery.run_visit import run_visit
from tests.support.engine import Engine
from tests.support.queue import lose_all
from tests.support.runs import RUN, begin, fanned_out, go_to, started

HERE = machine_queue("here")
OWN = f"{QUEUE} {HERE}"

THREE_WORDS = """
start: a
initial_state: {first: one}
nodes:
  a: {type: set, values: {second: "'two'"}, next: b}
  b: {type: set, values: {words: "first + ' ' + second + ' three'"}, next: z}
  z: {type: end, output: "{{words}}"}
"""

CHAIN = """
start: each
initial_state: {words: [a], mark: "!"}
nodes:
  each: {type: map, over: "{{words}}", as: word, branch: first, output_key: said,
         collect_into: all, next: z}
  first: {type: set, values: {said: "word + 'b'"}, next: upper}
  upper: {type: set, values: {said: "said + mark"}}
  z: {type: end, output: "{{all}}"}
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
    return None if message is None else visit_of(message)


def visit_of(message: str) -> list[str]:
    """The run and the visit that a message is about."""
    return json.loads(json.loads(message)["body"])[0][:2]


def test_the_only_message_is_handed_over_instead_of_queued(engine: Engine) -> None:
    assert committed(engine, "a") == [RUN, "2/a"]
    assert engine.queued_visits() == []


def test_of_several_messages_the_first_is_handed_over(engine: Engine) -> None:
    assert committed(engine, "a", "b") == [RUN, "2/a"]
    assert engine.queued_visits() == ["2/b"]


@pytest.mark.parametrize("queues", ["", HERE])
def test_messages_of_other_queues_are_queued(engine: Engine, queues: str) -> None:
    assert committed(engine, "a", queues=queues) is None
    assert engine.queued_visits() == ["2/a"]


def test_what_waits_already_comes_first(engine: Engine) -> None:
    lease = started(engine)
    assert engine.pop() is not None
    engine.redis.lpush(QUEUE, "a message")
    taker = Taker(OWN, Lease(RUN, VisitId("2/a"), "t2"))

    advanced = engine.store.visits.advance(lease, 1, go_to("a"), cap=9, window=8, taker=taker)

    assert (advanced.message, advanced.begun) == ("a message", None)
    assert engine.queued_visits() == ["2/a"]


@pytest.mark.parametrize(
    ("waiting", "queues", "first"),
    [
        ({(QUEUE, 1): "a", (HERE, 0): "b", (HERE, 2): "c"}, OWN, "b"),
        ({(QUEUE, 2): "a", (HERE, 1): "b"}, OWN, "b"),
        ({(QUEUE, 0): "a", (HERE, 0): "b"}, f"{QUEUE} {HERE}", "a"),
        ({(QUEUE, 0): "a", (HERE, 0): "b"}, f"{HERE} {QUEUE}", "b"),
        ({(QUEUE, 0): "a"}, HERE, None),
        ({(QUEUE, 0): "a"}, "", None),
        # Runs of batches start by turns, which only the event loop knows to ask for.
        ({(QUEUE, 3): "a"}, OWN, None),
    ],
)
def test_the_end_of_a_run_hands_over_what_comes_next(
    engine: Engine, waiting: dict[tuple[str, int], str], queues: str, first: str | None
) -> None:
    lease = started(engine)
    assert engine.pop() is not None
    for (queue, lane), text in waiting.items():
        engine.redis.lpush(lane_key(queue, lane), text)

    end = Plan({}, output="x")
    ended = engine.store.visits.advance(lease, 1, end, cap=9, window=8, taker=Taker(queues))

    assert ended.message == first
    left = [engine.redis.llen(lane_key(*place)) for place in waiting]
    assert sum(left) == len(waiting) - (first is not None)


def test_branches_and_items_hand_over_the_next_message(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    parking, visits = engine.store.parking, engine.store.visits
    parking.open_map(begin(engine, "2/a"), "b", 1, ["1", "2"])
    lose_all(engine.redis)
    engine.redis.rpush(QUEUE, "first")

    assert visits.stage(begin(engine, "2/b"), 2, Branch({}), queues=OWN).message == "first"
    item = parking.stage_item(begin(engine, "2/a/0"), "{}", elapsed_ms=1, queues=OWN)

    assert item is not None
    assert visit_of(item) == [RUN, "2/a/1"]
    assert engine.queued_visits() == []


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


def test_an_item_begins_its_next_node_with_the_commit_of_the_one_before(engine: Engine) -> None:
    run_id = engine.submit(CHAIN)
    handover.queues = OWN
    while handover.begun is None:
        assert engine.work_once()
    handover.queues = ""
    assert handover.begun[0].visit == "1/each/0/upper/1"
    engine.redis.config_resetstat()

    go_on(engine)

    assert engine.redis.info("commandstats")["cmdstat_evalsha"]["calls"] == 1
    engine.drive()
    assert engine.run(run_id).output == '["ab!"]'


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


@pytest.mark.parametrize(
    "garbage",
    ["", "x", "{}", "[]", '{"body": "e30="}', '{"body": 1}', "[" * 100_000],
    ids=lambda text: text[:20],
)
def test_a_thread_drops_what_is_no_message(garbage: str) -> None:
    ran = []

    def visit(*arguments: str) -> None:
        ran.append(arguments)
        handover.message = garbage

    strategy._run(visit, [RUN, "1/s", "d"], lambda: ran.append(("done",)), lambda: OWN)

    assert ran == [(RUN, "1/s", "d"), ("done",)]


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
