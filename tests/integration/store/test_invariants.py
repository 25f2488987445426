"""The invariant checker: silent on a healthy run, and it sees whatever is broken in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sleipnir.scheduler.doctor.consistency import ConsistencyCheck
from sleipnir.scheduler.process.packing import unpack
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.store.keys import run_key
from tests.support.conversations import converses
from tests.support.engine import Engine
from tests.support.invariants import rules_broken
from tests.support.model_server import ModelServer, Reply, Request, calls, says
from tests.support.supervising import agents_in, collects_all, spawns

# After its first step it does everything at once.
GRAPH = """
settings: {timeout: 60}
start: a
nodes:
  a: {type: script, script: a.sh, next: [ask, child, each, s]}
  ask: {type: agent, agent: asks, prompt: p, next: z}
  child: {type: agent, agent: helper, prompt: p, next: z}
  each: {type: map, over: "{{items}}", as: item, branch: b, collect_into: k, next: z}
  b: {type: script, script: b.sh}
  s: {type: script, script: b.sh, state_updates: {}, next: z}
  z: {type: end, output: done}
"""
SCRIPTS = {"a.sh": "echo '{\"items\": [1, 2]}'", "b.sh": "echo '{\"output\": 1}'"}
HELPER = "start: z\nnodes: {z: {type: end, output: ok}}"

ASKS = """
start: q
nodes:
  q: {type: input, question: "well?", next: z}
  z: {type: end, output: ok}
"""

# What is broken, as a Redis command, and the rule that notices.
BREAKAGES = {
    "ZREM {p}:timers|visit {run} 2/s": "stuck",
    "ZREM {p}:timers|wait {run} 2/child child": "stuck",
    "ZREM {p}:inbox|{asker} 1/q": "stuck",
    "HDEL {p}:questions:{asker}|1/q": "stuck",
    "DEL {p}:map:{run} 2/each": "stuck",
    "DEL {p}:run:{child}": "stuck",
    "DEL {p}:visits:{run}": "stuck",
    "HDEL {p}:visits:{run}|2/s": "stuck",
    "RPUSH {p}:pending:{run}|2/s": "frontier",
    "HSET {p}:staged:{run}|s|x": "frontier",
    "ZADD {p}:timers|1|visit {asker} 1/q": "indexes",
    "HSET {p}:questions:{run}|2/s|x": "indexes",
    "HINCRBY {p}:run:{run}|busy|1": "counters",
    "HSET {p}:run:{asker}|status|running": "counters",
    "HSET {p}:map:{run} 2/each|inflight|3": "counters",
    "HINCRBY {p}:run:{run}|n:s|1": "visits",
    "RPOP {p}:history:{run}": "history",
    "LPOP {p}:history:{run}": "history",
    "DEL {p}:children:{run}": "parent",
    "HSET {p}:run:{child}|parent|{child} 1/z": "children",
    "PEXPIRE {p}:state:{run}|1000000": "expiry",
    "ZADD {p}:timers|1|expiry {run}": "expiry",
    "SET sleipnir:lost|x": "expiry",
    "ZREM {p}:runs|{run}": "index",
    "ZREM {p}:childruns|{child}": "index",
    "ZADD {p}:runs|1|{child}": "index",
    "ZADD {p}:runs|1|{run}": "index",
    "HDEL {p}:ids:{run3}|{run}": "index",
    "HSET {p}:ids:{p0}f0|{run}|": "index",
    "ZREM {p}:open|{run}": "index",
    "ZADD {p}:waiting|1|{run}": "index",
    "ZADD {p}:agent:other|1|{run}": "index",
    "ZADD {p}:batch:b|1|{run}": "index",
    "ZADD {p}:label:a: b=c|1|{run}": "index",
    "HINCRBY {p}:tally|failed inf x|1": "tally",
    "HINCRBY {p}:batchtally:b|open|1": "tally",
    "ZADD {p}:batches|1|b": "batches",
    "HSET {p}:spend:20000|a|1 1 1 1 1 1 1 1": "sums",
    "HSET {p}:ended:20000|a|1": "sums",
    'HSET sleipnir:spend:20000||{{}}|agent|{{"a":[1]}}': "sums",
    "ZADD {p}:agent:other|1|{p0}ffffffffffffff": "orphan",
    "HSET {p}:ids:{p0}f|{p0}ffffffffffffff|": "orphan",
    "ZREM {p}:timers|deadline {run}": "deadline",
    "DEL sleipnir:bundle:{digest}": "bundle",
    "HINCRBY {p}:bundles|{digest}|1": "bundles",
    "HSET {p}:sessions|agent/name|{run}": "sessions",
    "HSET {p}:run:{run}|status|failed": "leftovers",
    "RPUSH {p}:logs:{p0}ffffffffffffff|x": "orphan",
    "ZADD {p}:timers|1|visit {p0}ffffffffffffff 1/a": "orphan",
}


@pytest.fixture
def run_id(engine: Engine) -> str:
    """A run that waits for a person, a child, a map's invocations and a script, all at once."""
    engine.write("helper", HELPER)
    engine.write("asks", ASKS)
    run_id = engine.submit(GRAPH, SCRIPTS)
    for _ in range(4):
        engine.work_once()
    assert engine.pop() == (run_id, "2/s", engine.run(run_id).digest)  # this message gets lost
    engine.work_once()
    return run_id


def test_a_run_in_the_middle_of_everything_is_consistent(engine: Engine, run_id: str) -> None:
    assert [visit for _, visit, _ in engine.queued()] == ["1/z", "2/each/0", "2/each/1"]
    assert rules_broken(engine.redis) == set()


def test_a_finished_run_is_consistent_at_every_step_to_its_end(engine: Engine, run_id: str) -> None:
    broken = set()
    engine.client.answer(run_id, "yes")

    while not engine.run(run_id).is_final:
        if not engine.work_once():
            engine.clock.move(5)  # the lost message is missed
            engine.tick()
        broken |= rules_broken(engine.redis)

    assert engine.run(run_id).status == "succeeded"
    assert broken == set()


@pytest.mark.parametrize(("breakage", "rule"), BREAKAGES.items())
def test_what_is_broken_is_found(engine: Engine, run_id: str, breakage: str, rule: str) -> None:
    asker, child = engine.queries.children(run_id)
    names = {
        "p": partition_of(run_id),
        "p0": run_id[:2],
        "run": run_id,
        "run3": run_id[:3],
        "asker": asker.run_id,
        "child": child.run_id,
        "digest": engine.run(run_id).digest,
    }
    command, _, arguments = breakage.partition(" ")

    engine.redis.execute_command(
        command, *(argument.format(**names) for argument in arguments.split("|"))
    )

    assert rule in rules_broken(engine.redis)
    engine.redis.flushall()  # nothing broken may be left to the check for leaked keys


def test_a_record_that_somebody_deletes_is_missed_and_purged_as_far_as_it_can_be(
    engine: Engine, run_id: str
) -> None:
    engine.client.cancel(run_id)
    engine.redis.delete(run_key("run", run_id))
    assert "orphan" in rules_broken(engine.redis)

    engine.store.runs.purge(run_id)

    broken = {str(violation) for violation in ConsistencyCheck(engine.redis).violations()}
    named = {text for text in broken if text.startswith(f"{run_id}: orphan")}
    assert named == {f"{run_id}: orphan: there is no such run, and the index 'agent:tested' has it"}
    engine.redis.flushall()


BOSS = "model: openai:m\ncan_spawn_agents: true\nmax_concurrent_agents: 1\n"
# Of a tree that is led by a model, as of the runs above.
BREAKAGES_OF_A_TREE = {
    "HSET {p}:run:{child}|parent|{run} 1/talker": "waits",
    "ZADD {p}:escalations:{run}|1|{child} 1/worker x": "waits",
    "ZREM {p}:escalations:{run}|{child} 2/worker user__input": "indexes",
    "DEL {p}:messages:{child}": "inbox",
}


def lead(engine: Engine, server: ModelServer) -> str:
    """Submit a run that collects an agent which asks, after a message; another has no place."""

    def sends(request: Request) -> Reply:
        (name,) = agents_in(request)
        return calls(("agent__send_message", {"id": name, "message": "Deep."}))

    plan = [{"subject": job, "agent": "worker", "prompt": job} for job in ("Dig.", "Plant.")]
    create = calls(*(("agent__task_create", each) for each in plan))
    converses(server, "Lead.", create, sends, collects_all, *[says("Done.")] * 5)
    ask = calls(("user__input", {"question": "Where?"}))
    converses(server, "Dig.", calls(("agent__check_inbox", {})), ask, says("A hole."))
    engine.write_normal("worker", "escalation_timeout: 30\n")
    return engine.submit_normal(BOSS, prompt="Lead.")


@pytest.fixture
def led(engine: Engine, server: ModelServer) -> str:
    """Such a run as its agent has just asked."""
    run_id = lead(engine, server)
    for newest in (True, True, True, False, False):
        engine.work_once(newest=newest)
    return run_id


def rewrite(engine: Engine, run_id: str, step: int, change: Callable[[Any], object]) -> None:
    """Change what a step has written, in the history."""
    history = run_key("history", run_id)
    checkpoint = json.loads(unpack(engine.redis.lindex(history, step)))
    change(checkpoint["writes"])
    engine.redis.lset(history, step, json.dumps(checkpoint))


def test_a_tree_in_the_middle_of_everything_is_consistent(engine: Engine, led: str) -> None:
    assert [question.text for question in engine.inbox()] == ["Where?"]
    assert rules_broken(engine.redis) == set()

    engine.drive()  # its model forgets the child until that is cancelled

    assert engine.run(led).output == "Done."
    assert rules_broken(engine.redis) == set()


@pytest.mark.parametrize(("breakage", "rule"), BREAKAGES_OF_A_TREE.items())
def test_what_is_broken_of_a_tree_is_found(
    engine: Engine, led: str, breakage: str, rule: str
) -> None:
    (child,) = engine.queries.children(led)
    names = {"p": partition_of(led), "run": led, "child": child.run_id}
    command, _, arguments = breakage.partition(" ")

    engine.redis.execute_command(
        command, *(argument.format(**names) for argument in arguments.split("|"))
    )

    assert rule in rules_broken(engine.redis)
    engine.redis.flushall()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda writes: writes["turn 1"].pop(), "conversation"),
        (lambda writes: writes.pop("turn 1"), "turns"),
        (lambda writes: writes.update({"turn 7": []}), "turns"),
        (lambda writes: writes["tasks"].pop(0), "tasks"),
        (lambda writes: writes["tasks"][0].update(owner=None), "tasks"),
        (lambda writes: writes["tasks"][0].update(owner="agent_worker_00000000"), "tasks"),
        (lambda writes: writes["tasks"][1].update(blocked_by=[1]), "tasks"),
        (lambda writes: writes["tasks"][1].update(status="blocked", blocked_by=[2]), "tasks"),
        (lambda writes: writes["agents"]["members"][0].update(run_id="0" * 16), "roster"),
    ],
)
def test_what_a_model_cannot_have_been_told_is_found(
    engine: Engine, led: str, change: Callable[[Any], object], rule: str
) -> None:
    rewrite(engine, led, 1, change)

    assert rule in rules_broken(engine.redis)


def test_a_free_place_that_nobody_takes_is_found(engine: Engine, server: ModelServer) -> None:
    run_id = lead(engine, server)
    waits = run_key("waits", f"{run_id} 3/talker")
    while not engine.redis.hexists(waits, "place"):
        engine.work_once(newest=True)
    assert rules_broken(engine.redis) == set()

    engine.redis.hset(waits, "place", "place open 1 -1 2")

    assert "stuck" in rules_broken(engine.redis)


def test_a_child_that_its_model_has_forgotten_is_found(engine: Engine, led: str) -> None:
    (child,) = engine.queries.children(led)
    engine.redis.hset(run_key("run", child.run_id), "parent", f"{led} 1/talker")

    rewrite(engine, led, 1, lambda writes: writes["agents"].update(members=[]))

    assert "roster" in rules_broken(engine.redis)


NODE = """
model: openai:m
can_spawn_agents: true
start: lead
nodes:
  lead: {type: llm, prompt: Lead., next: z}
  z: {type: end, output: done}
"""


@pytest.mark.parametrize(
    "breakage",
    [
        "HSET {p}:run:{child}|parent|{run} 1/gone",
        "HSET {p}:spawned:{run}|ffffffff|{p0}ffffffffffffff",
    ],
)
def test_what_the_child_of_a_node_cannot_be_is_found(
    engine: Engine, server: ModelServer, breakage: str
) -> None:
    converses(server, "Lead.", spawns("Dig."), collects_all, says("Done."))
    converses(server, "Dig.", says("A hole."))
    engine.write_normal("worker", "instructions: You work.\n")
    run_id = engine.submit(NODE)
    engine.work_once()
    (child,) = engine.queries.children(run_id)
    assert rules_broken(engine.redis) == set()
    names = {"p": partition_of(run_id), "p0": run_id[:2], "run": run_id, "child": child.run_id}
    command, _, arguments = breakage.partition(" ")

    engine.redis.execute_command(
        command, *(argument.format(**names) for argument in arguments.split("|"))
    )

    assert "roster" in rules_broken(engine.redis)
    engine.redis.flushall()
