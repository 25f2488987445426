"""Who comes first: what is of no batch before batches, those in turns, started runs before new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import redis
from kombu.transport.redis import Channel

from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.keys import (
    LANES,
    QUEUE,
    TURN_MARK,
    lane_key,
    machine_queue,
    turns_key,
)
from sleipnir.worker.celery.broker import NEXT_BY_TURN
from tests.support.engine import Engine
from tests.support.proxy import Proxy
from tests.support.queue import lose_all, waiting
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until
from tests.support.workers import Workers

# One node after the other, which do nothing.
CHAIN = """
start: a
initial_state: {none: []}
nodes:
  a: {type: map, over: "{{none}}", as: item, branch: b, collect_into: x, next: z}
  b: {type: script, script: s.sh}
  z: {type: end}
"""
SCRIPT = {"s.sh": "echo '{\"output\": 1}'"}


def submit(engine: Engine, names: str, graph: str = CHAIN) -> dict[str, str]:
    """One run a letter, of the batch of that letter; `-` stands for a run of none."""
    return {
        engine.submit(graph, SCRIPT, batch=None if name == "-" else name): name for name in names
    }


def order(engine: Engine, names: dict[str, str]) -> list[str]:
    """Work until the queue is empty: run and node of each visit, in order."""
    worked = []
    while message := engine.queued()[:1]:
        worked.append(f"{names[message[0][0]]}{message[0][1].partition('/')[2]}")
        engine.work_once()
    return worked


def beginnings(worked: list[str]) -> str:
    return "".join(visit[0] for visit in worked if visit.endswith("a"))


def test_batches_take_turns_behind_what_is_of_none(engine: Engine) -> None:
    names = submit(engine, "xxxxxyyy-z-")

    worked = order(engine, names)

    assert beginnings(worked)[:2] == "--"
    assert beginnings(worked)[2] == "x"  # it came when nothing waited
    assert sorted(beginnings(worked)[3:6]) == ["x", "y", "z"]
    assert beginnings(worked)[6:] in ("xyxyx", "yxyxx", "xyyxx", "yxxyx")
    assert all(run.status == Status.SUCCEEDED for run in map(engine.run, names))


def test_a_batch_that_comes_later_joins_at_the_turn_that_is_next(engine: Engine) -> None:
    names = submit(engine, "xxxxxxxx")
    for _ in range(6):  # three runs
        engine.work_once()

    names |= submit(engine, "yyyy")

    rest = beginnings(order(engine, names))
    assert [sorted(rest[at : at + 2]) for at in range(0, 8, 2)] == [["x", "y"]] * 4
    assert rest[8:] == "x"


def test_a_batch_that_was_busy_before_owes_nothing(engine: Engine) -> None:
    names = submit(engine, "xxxx")
    order(engine, names)

    names = submit(engine, "yyxx")

    rest = beginnings(order(engine, names))
    assert [rest[0], sorted(rest[1:3]), rest[3]] == ["y", ["x", "y"], "x"]


def test_what_has_started_ends_before_anything_new_begins(engine: Engine) -> None:
    batches, others = submit(engine, "xy"), submit(engine, "--")

    worked = order(engine, batches | others)

    assert worked[:4] == ["-a", "-z", "-a", "-z"]
    assert [visit[1:] for visit in worked] == ["a", "z"] * 4


def test_a_person_s_run_passes_a_batch_that_has_started(engine: Engine) -> None:
    names = submit(engine, "xxx")
    engine.work_once()

    names |= submit(engine, "-")

    assert order(engine, names)[:3] == ["-a", "-z", "xz"]


def test_a_wide_map_lets_others_begin(engine: Engine) -> None:
    graph = CHAIN.replace("[]", "[1, 2, 3, 4]").replace("over:", "max_concurrency: 2, over:")
    names = submit(engine, "-", graph)
    engine.work_once()
    later = engine.submit(CHAIN, SCRIPT)

    worked = order(engine, names | {later: "+"})

    assert worked == ["-a/0", "-a/1", "+a", "+z", "-a/2", "-a/3", "-a", "-z"]


def test_children_of_a_batch_s_runs_wait_behind_others_too(engine: Engine) -> None:
    engine.write("helper", "start: c\nnodes: {c: {type: end}}\n")
    calls = """
    start: a
    nodes:
      a: {type: agent, agent: helper, prompt: "", next: z}
      z: {type: end}
    """
    names = submit(engine, "xx", calls)
    engine.work_once()

    names |= submit(engine, "-")

    assert [visit for _, visit, _ in engine.queued()] == ["1/a", "1/c", "1/a"]


def test_batches_take_turns_on_one_machine_as_well(engine: Engine) -> None:
    desk = machine_queue("desk")
    names = {
        engine.submit(CHAIN, SCRIPT, machine="desk", batch=name): name or "-"
        for name in ("x", "x", "y", None)
    }

    messages = waiting(engine.redis, desk)

    owners = [name for text in messages for run_id, name in names.items() if run_id in text]
    assert owners in (["-", "x", "y", "x"], ["-", "x", "x", "y"])
    assert waiting(engine.redis) == []


def test_messages_that_wait_for_their_turn_are_not_repeated(engine: Engine) -> None:
    submit(engine, "xxy-")
    before = engine.queued()

    for _ in range(3):
        engine.clock.move(60)
        engine.tick()

    assert engine.queued() == before


def test_a_lost_message_gets_the_turn_that_is_next(engine: Engine) -> None:
    names = submit(engine, "xxxx")
    lost = engine.pop()
    assert lost is not None

    engine.clock.move(60)
    engine.tick()

    assert len(engine.queued()) == len(names)
    assert lost in engine.queued()[:2]


def test_a_worker_that_died_between_a_mark_and_its_message_holds_nothing_up(
    engine: Engine,
) -> None:
    names = submit(engine, "xyy")
    engine.work_once()  # the first one stood in the lane itself
    assert engine.redis.rpop(lane_key(QUEUE, LANES - 1)) == TURN_MARK

    engine.clock.move(60)
    engine.tick()
    engine.drive()

    assert all(engine.run(run_id).status.is_final for run_id in names)


def test_a_mark_goes_back_if_something_urgent_came_before_its_message(engine: Engine) -> None:
    names = submit(engine, "xyy")
    lists, marks = [lane_key(QUEUE, lane) for lane in range(LANES - 1)], lane_key(QUEUE, LANES - 1)
    engine.work_once()  # the first one stood in the lane itself
    assert engine.redis.rpop(marks) == TURN_MARK
    (urgent,) = submit(engine, "-")

    keys = [*lists, marks, turns_key(QUEUE)]
    taken: Any = engine.redis.eval(NEXT_BY_TURN, len(keys), *keys, len(lists), TURN_MARK, 1)

    assert urgent in taken[1]
    assert engine.redis.llen(marks) == engine.redis.zcard(turns_key(QUEUE)) == 2
    lose_all(engine.redis)
    engine.clock.move(60)
    engine.tick()
    engine.drive()
    assert all(engine.run(run_id).status.is_final for run_id in (*names, urgent))


def test_an_emptied_queue_is_filled_again(engine: Engine) -> None:
    names = submit(engine, "xxy-")
    lose_all(engine.redis)

    engine.clock.move(60)
    engine.tick()
    engine.drive()

    assert all(engine.run(run_id).status.is_final for run_id in names)


def test_lanes_are_the_lists_of_kombu_s_priorities() -> None:
    class Names:
        sep, priority_steps = Channel.sep, list(range(LANES))
        priority = Channel.priority

    named = [Channel._q_for_pri(Names(), QUEUE, lane) for lane in range(LANES)]

    assert named == [lane_key(QUEUE, lane) for lane in range(LANES)]


NOTES = """
start: a
nodes:
  a: {type: script, script: note.sh, next: b}
  b: {type: script, script: note.sh, next: z}
  z: {type: end}
"""


def test_a_worker_keeps_to_the_order(
    workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    note = {"note.sh": f"echo \"$SLEIPNIR_RUN_ID\" >> {notes}; echo '{{}}'"}
    names = {workers.submit(NOTES, note, batch=name): name or "-" for name in [*"xxxyy", None]}
    # Neither what nobody can read nor a mark for nothing takes anybody's turn.
    marks = lane_key(QUEUE, LANES - 1)
    redis_client.zadd(turns_key(QUEUE), {"garbage": -1})
    redis_client.rpush(marks, TURN_MARK, TURN_MARK)

    workers.start("--scheduler", concurrency=1)
    for run_id in names:
        assert workers.client.wait(run_id).status == Status.SUCCEEDED

    worked = "".join(names[run_id] for run_id in notes.read_text().split())
    turns = ("xxyy", "yyxx")
    assert worked in {f"--xx{first}{second}" for first in turns for second in turns}
    wait_until(lambda: not redis_client.exists(marks), "the last mark is taken", 60)


ASKS = """
start: i
nodes:
  i: {type: input, question: "well?", next: z}
  z: {type: end}
"""
# Two branches without an end: there is always a message of started runs in the shared queue.
NEVER_ENDS = """
settings: {max_loop_iterations: 1000000}
initial_state: {n: 1}
start: s
nodes:
  s: {type: set, values: {m: n}, next: [a, b]}
  a: {type: set, values: {x: n}, next: [{when: n > 0, to: a}, {to: z}]}
  b: {type: set, values: {y: n}, next: [{when: n > 0, to: b}, {to: z}]}
  z: {type: end}
"""


def test_no_queue_of_a_worker_waits_for_another_to_be_empty(
    workers: Workers, redis_server: RedisServer
) -> None:
    with Proxy(redis_server.socket_file) as proxy:  # a worker of a shared Redis has two queues
        workers.start("--scheduler", url=proxy.url, concurrency=1, machine="desk")
        pinned = workers.submit(ASKS, machine="desk")
        wait_until(workers.inbox, "it asks")
        busy = workers.submit(NEVER_ENDS)
        wait_until(lambda: workers.run(busy).step > 5, "the other run is under way")

        workers.client.answer(pinned, "yes")

        assert workers.client.wait(pinned, timeout_s=30).status == Status.SUCCEEDED
        workers.client.cancel(busy, "enough")
