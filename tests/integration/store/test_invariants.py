"""The invariant checker: silent on a healthy run, and it sees whatever is broken in one."""

from __future__ import annotations

import json

import pytest

from sleipnir.scheduler.doctor.consistency import ConsistencyCheck
from sleipnir.scheduler.store.keys import partition_of, run_key
from tests.support.engine import Engine
from tests.support.model_server import ModelServer, calls, says

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
    "HDEL {p}:visits:{run}|2/s": "frontier",
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
    "ZADD {p}:timers|1|expiry {run} {digest}": "expiry",
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


def rules_broken(engine: Engine) -> set[str]:
    return {violation.rule for violation in ConsistencyCheck(engine.redis).violations()}


def test_a_run_in_the_middle_of_everything_is_consistent(engine: Engine, run_id: str) -> None:
    assert [visit for _, visit, _ in engine.queued()] == ["1/z", "2/each/0", "2/each/1"]
    assert rules_broken(engine) == set()


def test_a_finished_run_is_consistent_at_every_step_to_its_end(engine: Engine, run_id: str) -> None:
    broken = set()
    engine.client.answer(run_id, "yes")

    while not engine.run(run_id).is_final:
        if not engine.work_once():
            engine.clock.move(5)  # the lost message is missed
            engine.tick()
        broken |= rules_broken(engine)

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

    assert rule in rules_broken(engine)
    engine.redis.flushall()  # nothing broken may be left to the check for leaked keys


def test_a_record_that_somebody_deletes_is_missed_and_purged_as_far_as_it_can_be(
    engine: Engine, run_id: str
) -> None:
    engine.client.cancel(run_id)
    digest = engine.run(run_id).digest
    engine.redis.delete(run_key("run", run_id))
    assert "orphan" in rules_broken(engine)

    engine.store.runs.purge(run_id, digest)

    broken = {str(violation) for violation in ConsistencyCheck(engine.redis).violations()}
    named = {text for text in broken if text.startswith(f"{run_id}: orphan")}
    assert named == {f"{run_id}: orphan: there is no such run, and the index 'agent:tested' has it"}
    engine.redis.flushall()


def test_a_call_without_its_result_is_found(engine: Engine, server: ModelServer) -> None:
    server.script.add(calls(("gone", {}), ("lost", {})), says("Done."))
    talk = engine.submit_normal("model: openai:m\n")
    engine.drive()
    assert list(ConsistencyCheck(engine.redis).violations()) == []

    history = run_key("history", talk)
    checkpoint = json.loads(engine.redis.lindex(history, 1))
    del checkpoint["writes"]["turn 1"][-1]
    engine.redis.lset(history, 1, json.dumps(checkpoint))

    (found,) = ConsistencyCheck(engine.redis).violations()
    assert (found.run_id, found.rule) == (talk, "conversation")
