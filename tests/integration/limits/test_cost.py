"""What a visit costs in Redis, so that nothing creeps into the per-node path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import yaml

from sleipnir.scheduler.limits.records import Used
from sleipnir.scheduler.limits.rules import Budget, Limit
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.machines import PRESENT_EVERY_S, Machines, WorkerState
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.worker.monitor.metrics import EngineMetrics
from tests.support.engine import Engine
from tests.support.limits import allotments_of, granted, reservation
from tests.support.model_server import ModelServer, says

# This test's own questions, and what each new connection of a pool says first.
NOT_COUNTED = {"config|resetstat", "info", "client|setinfo", "hello"}

# Begin, and one transition that commits, advances and enqueues. Whoever adds to this adds it to
# every node of every run.
LINEAR_VISIT = {
    "evalsha": 2,
    "hdel": 1,
    "hget": 2,
    "hmget": 3,
    "hset": 4,
    "hstrlen": 1,
    "lpush": 1,
    "rpush": 1,
    "xadd": 1,
    "zadd": 2,
    "zrem": 1,
}

# Reserving it and releasing it, with one limit and one budget: reads, writes, and reading what the
# writes replace.
LIMITED_CALL = 105

# The only visit of a run that begins and ends with it. Of hooks it asks whether there are any,
# along with who has lists open: at its begin and its end, by the `mget`s.
ONLY_VISIT = {
    "evalsha": 2,
    "get": 1,
    "hdel": 1,
    "hget": 3,
    "hgetall": 1,
    "hincrby": 2,
    "hlen": 1,
    "hmget": 4,
    "hset": 5,
    "mget": 2,
    "pexpire": 7,
    "pttl": 2,
    "rpush": 1,
    "sadd": 1,
    "sismember": 1,
    "unlink": 1,
    "xadd": 2,
    "zadd": 2,
    "zrem": 2,
}


def linear(length: int, **state: Any) -> str:
    """Nodes in a row that do nothing but commit a value each."""
    nodes: dict[str, Any] = {
        f"n{i}": {
            "type": "map",
            "over": "{{none}}",
            "as": "item",
            "branch": "branch",
            "collect_into": f"result_{i}",
            "next": f"n{i + 1}" if i + 1 < length else "done",
        }
        for i in range(length)
    }
    nodes["done"] = {"type": "end"}
    nodes["branch"] = {"type": "llm", "prompt": "-", "model": "openai:m"}
    seeds = {"none": [], **state}
    return yaml.safe_dump({"start": "n0", "initial_state": seeds, "nodes": nodes})


def commands_since(engine: Engine) -> dict[str, int]:
    """Return how often each command was given since the counts were last reset, by name."""
    stats = cast(dict[str, dict[str, int]], engine.redis.info("commandstats"))
    calls = {name.removeprefix("cmdstat_"): entry["calls"] for name, entry in stats.items()}
    return {name: calls[name] for name in sorted(calls) if name not in NOT_COUNTED}


def cost_of_next_visit(engine: Engine) -> tuple[dict[str, int], int]:
    """Redis commands of the oldest message's visit, and bytes that went to and fro."""
    engine.redis.config_resetstat()
    assert engine.work_once()
    commands = commands_since(engine)
    traffic = cast(dict[str, int], engine.redis.info("stats"))
    for not_the_visit_s in ("rpop", "time"):  # taking the message, and asking for the time
        commands.pop(not_the_visit_s, None)
    return commands, traffic["total_net_input_bytes"] + traffic["total_net_output_bytes"]


def test_a_linear_visit_is_two_round_trips_of_known_commands(engine: Engine) -> None:
    engine.submit(linear(5))
    engine.work_once()
    engine.work_once()

    commands, _ = cost_of_next_visit(engine)

    assert commands == LINEAR_VISIT


def test_a_run_without_hooks_costs_nothing_for_them(engine: Engine) -> None:
    engine.submit("start: done\nnodes: {done: {type: end, output: fine}}")

    commands, _ = cost_of_next_visit(engine)

    assert commands == ONLY_VISIT


def test_cost_does_not_grow_with_finished_visits(engine: Engine) -> None:
    engine.submit(linear(60))
    engine.work_once()
    early = [cost_of_next_visit(engine) for _ in range(3)][-1]
    for _ in range(45):
        engine.work_once()

    late = cost_of_next_visit(engine)

    assert late[0] == early[0]
    # Node ids and steps have a digit more.
    assert late[1] == pytest.approx(early[1], rel=0.03)


def test_cost_does_not_grow_with_other_runs(engine: Engine) -> None:
    engine.submit(linear(5))
    engine.work_once()
    alone = cost_of_next_visit(engine)
    others = [engine.submit(linear(5)) for _ in range(50)]

    crowded = cost_of_next_visit(engine)

    assert len(others) == 50
    assert crowded[0] == alone[0]
    assert crowded[1] == pytest.approx(alone[1], rel=0.02)


def test_state_that_a_node_does_not_name_costs_nothing(engine: Engine) -> None:
    engine.submit(linear(5))
    engine.work_once()
    small = cost_of_next_visit(engine)
    engine.drive()
    engine.submit(linear(5, luggage="x" * 1_000_000))
    engine.work_once()

    large = cost_of_next_visit(engine)

    assert large[0] == small[0]
    assert large[1] == pytest.approx(small[1], rel=0.02)


def test_a_model_call_adds_no_round_trip_but_the_record_of_its_reply(
    engine: Engine, server: ModelServer
) -> None:
    server.when("Say", says("fine"))
    nodes = {
        name: {"type": "llm", "model": "openai:m", "prompt": "Say.", "next": following}
        for name, following in (("a", "b"), ("b", "c"), ("c", "z"))
    }
    engine.submit(yaml.safe_dump({"start": "a", "nodes": {**nodes, "z": {"type": "end"}}}))
    engine.work_once()
    engine.work_once()

    commands, _ = cost_of_next_visit(engine)

    # Begin, the recorded reply, and the commit together with log and transcript.
    assert commands["evalsha"] == 4
    # What was asked, and the commit.
    assert commands["xadd"] == 2


def test_a_limited_call_of_few_takes_known_commands(engine: Engine) -> None:
    limiter = RateLimiter(engine.redis, engine.store.clock)
    process = allotments_of(limiter, engine.clock)
    limits, budget = Limit("p", 1_000, 10**6, 50), ("run:r", Budget("run", usd=9.0))

    def call(number: int) -> None:
        asked = reservation(number, limits, budgets=(budget,), tokens=5, worst_usd=0.1)
        process.release(granted(process.reserve(asked)), Used(5, 0.05, 1.0))

    call(1)
    engine.redis.config_resetstat()

    call(2)

    commands = commands_since(engine)
    assert commands.pop("evalsha") == 2
    assert sum(commands.values()) == LIMITED_CALL


def test_heartbeats_of_a_worker_take_less_than_a_command_a_second(engine: Engine) -> None:
    machines, every_s = Machines(engine.redis), 5
    idle = WorkerState("desk", 7, slots=8, busy=0, taken=0, idle_s=1.0, memory_bytes=1)
    engine.redis.config_resetstat()

    machines.announce(idle, with_queue=True)
    for _ in range(every_s, int(PRESENT_EVERY_S), every_s):
        machines.beat(idle, with_queue=True)

    assert sum(commands_since(engine).values()) < PRESENT_EVERY_S


def commands_for(engine: Engine, act: Callable[[], object]) -> int:
    """Return how many commands an act takes."""
    engine.redis.config_resetstat()
    act()
    return sum(commands_since(engine).values())


def test_a_large_fleet_costs_submissions_nothing_and_figures_little(engine: Engine) -> None:
    agent, machines = engine.client.prepare(engine.write("tested", linear(2)).name), 1_000
    known = Machines(engine.redis)

    def submit() -> None:
        known.any_work()
        engine.client.submit(agent, Request(queue="default"))

    def scrape() -> None:
        assert EngineMetrics(engine.store, engine.store.settings).collect()

    def cheapest_submission() -> int:  # now and then one reads again what settings say
        return min(commands_for(engine, submit) for _ in range(5))

    submit()
    alone = cheapest_submission(), commands_for(engine, scrape)
    for number in range(machines):
        worker = WorkerState(f"m{number}", 7, slots=8, busy=1, taken=9, idle_s=1, memory_bytes=1)
        known.announce(worker, with_queue=True)

    submitting, scraping = cheapest_submission(), commands_for(engine, scrape)

    assert submitting == alone[0]
    # The workers are read at once; of their machines' queues, 64 by a command.
    assert scraping - alone[1] < 0.02 * machines
