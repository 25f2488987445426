"""Runs that nothing would look at again: each form is found, and mended or failed with R023."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

import pytest
from prometheus_client.registry import CollectorRegistry

from sleipnir.scheduler.runs.consistency.rules import REPAIRS
from sleipnir.scheduler.runs.events import RunEnded
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.service.sweeps.stranded import StrandedSweep
from sleipnir.scheduler.store.keys import run_key
from sleipnir.worker.monitor.metrics import EngineMetrics
from tests.support.engine import Engine
from tests.support.invariants import rules_broken
from tests.support.runs import FAILED, RUN, a_run, ask, begin, fanned_out, look_at, stage

# After its first step it does everything at once.
GRAPH = """
settings: {timeout: 600}
start: a
nodes:
  a: {type: script, script: a.sh, next: [ask, child, each, s]}
  ask: {type: agent, agent: asks, prompt: p, next: z}
  child: {type: agent, agent: helper, prompt: p, next: z}
  each: {type: map, over: "{{items}}", as: item, branch: b, collect_into: k, max_concurrency: 2,
         next: z}
  b: {type: script, script: b.sh}
  s: {type: script, script: b.sh, state_updates: {}, next: z}
  z: {type: end, output: "{{k}}"}
"""
SCRIPTS = {"a.sh": "echo '{\"items\": [1, 2, 3]}'", "b.sh": "echo '{\"output\": 1}'"}
HELPER = "start: z\nnodes: {z: {type: end, output: ok}}"
ASKS = """
start: q
nodes:
  q: {type: input, question: "well?", next: z}
  z: {type: end, output: ok}
"""
# Redis commands that break a run, and the rule of the consistency check that notices.
MENDED = {
    "ZREM {p}:timers|visit {run} 2/s": "stuck",
    "ZREM {p}:timers|wait {run} 2/child child": "stuck",
    "ZREM {p}:timers|deadline {run}": "deadline",
    "DEL {p}:timers": "stuck",
    "ZREM {p}:inbox|{asker} 1/q": "stuck",
}
FAILED_WITH = {
    "DEL {p}:visits:{run}": "none of its visits is open",
    "HDEL {p}:visits:{run}|2/s": "visit 2/s is neither open nor held back",
    "HDEL {p}:visits:{run}|2/each": "visit 2/each is neither open nor held back",
    "HSET {p}:visits:{run}|1/a|ready - 0 1 0 0 0 ": "visit 1/a does not belong to step 2",
    "HSET {p}:visits:{run}|2/s|nonsense": "visit 2/s has an invalid record",
    "DEL {p}:map:{run} 2/each": "map 2/each has lost its items",
    "HDEL {p}:map:{run} 2/each|item:1": "item 1 of map 2/each is gone",
    "HDEL {p}:visits:{run}|2/each/1": "item 1 of map 2/each has neither an invocation nor",
    "HDEL {p}:visits:{run}|2/each/0|2/each/1": "item 0 of map 2/each has neither",
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


@pytest.fixture(autouse=True)
def _counts_of_repairs(engine: Engine) -> Iterator[None]:
    """Take away the counts, which count as leaked in all other tests."""
    yield
    for key in engine.redis.scan_iter("{p*}:repairs"):
        engine.redis.delete(key)


def plant(engine: Engine, run_id: str, breakage: str) -> None:
    command, _, arguments = breakage.partition(" ")
    names = names_in(engine, run_id)
    engine.redis.execute_command(
        command, *(argument.format(**names) for argument in arguments.split("|"))
    )


def names_in(engine: Engine, run_id: str) -> Mapping[str, str]:
    children = (run.run_id for run in engine.queries.children(run_id))
    names = dict(zip(("asker", "child"), children, strict=False))
    return {"p": partition_of(run_id), "run": run_id, **names}


def sweep(engine: Engine, run_id: str, looks: int = 2) -> int:
    """Look that often, well apart; how many runs were dealt with."""
    stranded = StrandedSweep(engine.store, engine.clock.passed_s)
    dealt_with = 0
    for _ in range(looks):
        dealt_with += stranded.run_once([partition_of(run_id)])
        engine.clock.move(61)
    return dealt_with


def drive_to_its_end(engine: Engine, run_id: str) -> None:
    """Be worker, scheduler and the person who is asked."""
    for _ in range(100):
        for question in engine.inbox():
            engine.store.parking.answer(question.run_id, question.visit, "yes")
        if not engine.work_once():
            if engine.run(run_id).is_final:
                return
            engine.clock.move(5)
            engine.tick()
    raise AssertionError(f"{run_id} does not end: {engine.run(run_id)}")


@pytest.mark.parametrize(("breakage", "rule"), MENDED.items())
def test_what_can_go_on_is_made_to(engine: Engine, run_id: str, breakage: str, rule: str) -> None:
    plant(engine, run_id, breakage)
    assert rule in rules_broken(engine.redis)

    # A parent and its child may both have to be mended: what one changes, the other waits for.
    dealt_with = sweep(engine, run_id, looks=4)

    assert dealt_with >= 1
    assert rules_broken(engine.redis) - {"indexes"} == set()
    drive_to_its_end(engine, run_id)
    assert engine.run(run_id).status == "succeeded"
    assert engine.run(run_id).output == "[1,1,1]"
    assert rules_broken(engine.redis) == set()


@pytest.mark.parametrize(("breakage", "text"), FAILED_WITH.items())
def test_what_cannot_go_on_fails_and_says_what_was_found(
    engine: Engine, run_id: str, breakage: str, text: str
) -> None:
    plant(engine, run_id, breakage)
    assert "stuck" in rules_broken(engine.redis)

    sweep(engine, run_id, looks=4)

    failure = engine.failure(run_id)
    assert failure.code == "R023"
    assert text in failure.message
    assert {run.status for run in engine.queries.children(run_id)} <= FINAL
    assert rules_broken(engine.redis) <= {
        "history",
        "visits",
    }  # what the record lacks, nobody knows


def test_a_child_that_is_gone_fails_its_node(engine: Engine, run_id: str) -> None:
    plant(engine, run_id, "DEL {p}:run:{child}")
    assert "stuck" in rules_broken(engine.redis)

    sweep(engine, run_id)
    drive_to_its_end(engine, run_id)

    failure = engine.failure(run_id)
    assert (failure.code, failure.node) == ("R015", "child")
    assert "R023: nothing is left of that run" in failure.message
    engine.redis.flushall()


def test_a_question_that_is_gone_fails_the_run_that_asked(engine: Engine, run_id: str) -> None:
    plant(engine, run_id, "HDEL {p}:questions:{asker}|1/q")
    assert "stuck" in rules_broken(engine.redis)

    sweep(engine, run_id)
    drive_to_its_end(engine, run_id)

    failure = engine.failure(run_id)
    assert (failure.code, failure.node) == ("R015", "ask")
    assert "R023: the run could not continue: visit 1/q waits for an answer" in failure.message


def test_an_ended_run_that_nothing_would_remove_is_removed(engine: Engine, run_id: str) -> None:
    engine.client.cancel(run_id)
    plant(engine, run_id, "DEL {p}:timers")
    assert rules_broken(engine.redis) == {"expiry"}

    sweep(engine, run_id)

    assert rules_broken(engine.redis) == set()


def test_a_child_that_nobody_waits_for_any_more_is_cancelled(engine: Engine, run_id: str) -> None:
    plant(engine, run_id, "HDEL {p}:visits:{run}|2/ask")

    sweep(engine, run_id, looks=4)

    assert engine.failure(run_id).code == "R023"
    assert {run.status for run in engine.queries.children(run_id)} == {"cancelled"}
    assert rules_broken(engine.redis) == set()


def test_a_run_that_cannot_be_read_is_told_and_keeps_nobody_up(
    engine: Engine, run_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = f"{partition_of(run_id)}:pending:{run_id}"
    engine.redis.set(key, "no list")

    with caplog.at_level(logging.ERROR, "sleipnir.scheduler"):
        sweep(engine, run_id)

    assert "unreadable" in rules_broken(engine.redis)
    assert f"run {run_id} cannot be read: WRONGTYPE" in caplog.text
    engine.redis.delete(key)


def test_the_order_that_redis_tells_a_record_in_is_no_change(engine: Engine, run_id: str) -> None:
    before = look_at(engine, run_id)
    record = run_key("run", run_id)

    for field, value in reversed(engine.redis.hgetall(record).items()):
        engine.redis.hdel(record, field)
        engine.redis.hset(record, field, value)

    assert look_at(engine, run_id).digest == before.digest
    engine.redis.flushall()


def test_a_run_that_can_neither_continue_nor_is_wanted_ends_once(
    engine: Engine, run_id: str
) -> None:
    asker = names_in(engine, run_id)["asker"]
    plant(engine, run_id, "HSET {p}:run:{asker}|parent|{run} 9/gone")
    plant(engine, run_id, "HDEL {p}:visits:{asker}|1/q")

    sweep(engine, run_id)

    assert (engine.run(asker).status, engine.failure(asker).code) == ("failed", "R023")
    assert len(engine.events(asker, RunEnded)) == 1
    assert engine.redis.hgetall(f"{partition_of(run_id)}:repairs") == {"fail": "1"}
    engine.redis.flushall()


def test_a_deadline_that_is_watched_at_another_time_is_repaired_once(
    engine: Engine, run_id: str
) -> None:
    deadline = engine.redis.hget(run_key("run", run_id), "deadline")
    plant(engine, run_id, "ZADD {p}:timers|99999999999999|deadline {run}")

    assert sweep(engine, run_id, looks=4) == 1

    timers = f"{partition_of(run_id)}:timers"
    assert engine.redis.zscore(timers, f"deadline {run_id}") == float(deadline or 0)
    assert rules_broken(engine.redis) == set()


def test_a_repair_that_changes_nothing_is_not_counted(engine: Engine, run_id: str) -> None:
    digest = look_at(engine, run_id).digest

    assert not engine.store.runs.repair(run_id, digest, ["set_timers"], None)

    assert not engine.redis.exists(f"{partition_of(run_id)}:repairs")
    assert look_at(engine, run_id).digest == digest


def test_what_looked_stranded_once_is_left_alone(engine: Engine, run_id: str) -> None:
    plant(engine, run_id, "HDEL {p}:visits:{run}|2/s")

    assert sweep(engine, run_id, looks=1) == 0

    assert engine.run(run_id).status == "running"
    engine.redis.flushall()


def test_a_look_is_at_few_runs(engine: Engine) -> None:
    for number in range(50):
        run_id = f"01{number:014x}"
        engine.store.runs.submit(a_run(run_id))
        plant(engine, run_id, "DEL {p}:visits:{run}")
    stranded = StrandedSweep(engine.store, engine.clock.passed_s)

    stranded.run_once(["{p01}"])
    engine.clock.move(61)

    assert stranded.run_once(["{p01}"]) == 40
    engine.redis.flushall()


def test_a_healthy_run_is_left_alone_however_long_it_waits(engine: Engine, run_id: str) -> None:
    assert sweep(engine, run_id, looks=5) == 0
    assert rules_broken(engine.redis) == set()


def test_the_scheduler_finds_them_by_itself(
    engine: Engine, run_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    plant(engine, run_id, "HDEL {p}:map:{run} 2/each|item:1")

    with caplog.at_level(logging.WARNING, "sleipnir.scheduler"):
        for _ in range(130):
            engine.clock.move(1)
            engine.tick()

    assert engine.failure(run_id).code == "R023"
    assert f"run {run_id} was stranded; failed: item 1 of map 2/each is gone" in caplog.text


def test_repairs_are_counted(engine: Engine, run_id: str) -> None:
    plant(engine, run_id, "ZREM {p}:timers|deadline {run}")
    sweep(engine, run_id)
    plant(engine, run_id, "DEL {p}:visits:{run}")
    sweep(engine, run_id)

    registry = CollectorRegistry()
    registry.register(EngineMetrics(engine.store, engine.store.settings))

    counted = {
        repair: registry.get_sample_value("sleipnir_repairs_total", {"repair": repair})
        for repair in REPAIRS
    }
    assert counted == dict.fromkeys(REPAIRS, 0) | {"set_timers": 1, "fail": 1}


# ---- steps with visits that are held back, or whose branch has failed


@pytest.mark.parametrize(
    "breakage",
    ["DEL {{p01}}:pending:{run}", "HDEL {{p01}}:visits:{run}|2/b"],
)
def test_a_step_with_a_window_that_nothing_moves_fails(engine: Engine, breakage: str) -> None:
    fanned_out(engine, "a", "b", window=1)
    ask(engine, "2/a")
    engine.store.parking.answer(RUN, "2/a", "yes")  # b has its place
    command, arguments = breakage.format(run=RUN).split(" ")
    engine.redis.execute_command(command, *arguments.split("|"))
    assert "stuck" in rules_broken(engine.redis)

    assert sweep(engine, RUN) == 1

    assert engine.failure(RUN).code == "R023"


def test_a_failed_step_that_nobody_ends_fails(engine: Engine) -> None:
    fanned_out(engine, "a", "b")
    begin(engine, "2/b")
    stage(engine, "2/a", FAILED)
    engine.redis.hdel(f"{{p01}}:visits:{RUN}", "2/b")
    assert "stuck" in rules_broken(engine.redis)

    sweep(engine, RUN)

    assert engine.failure(RUN).code == "R023"
