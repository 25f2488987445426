"""Records of live workers: each process has its own, whatever its machine and pid."""

from __future__ import annotations

import json
from dataclasses import replace

import redis

from sleipnir.scheduler.store.keys import FLEET, FLEET_MARKS
from sleipnir.scheduler.store.machines import Machines, WorkerState
from tests.support.silent_workers import fall_silent

WORKER = WorkerState(
    "team-host", 1, slots=32, busy=0, taken=0, idle_s=0.0, memory_bytes=0, incarnation="aa"
)


def test_workers_in_containers_with_equal_pids_are_counted_apart(redis_client: redis.Redis) -> None:
    machines = Machines(redis_client)
    other = replace(WORKER, incarnation="bb")
    for worker in (WORKER, other):
        machines.announce(worker, with_queue=True)

    assert machines.slots() == 64
    machines.leave(WORKER)
    assert [worker.name for worker in machines.workers()] == [other.name]


def test_whether_there_is_a_worker_takes_one_command(redis_client: redis.Redis) -> None:
    machines = Machines(redis_client)
    assert not machines.any_work()
    for number in range(100):
        machines.announce(replace(WORKER, incarnation=f"{number}"), with_queue=True)
    redis_client.config_resetstat()

    assert machines.any_work()

    commands = {name for name in redis_client.info("commandstats") if name != "cmdstat_info"}
    assert commands - {"cmdstat_config|resetstat"} == {"cmdstat_exists"}
    for number in range(100):
        machines.leave(replace(WORKER, incarnation=f"{number}"))
    assert not machines.any_work()


def test_a_worker_that_was_silent_for_a_day_is_forgotten_with_what_was_noted_of_it(
    redis_client: redis.Redis,
) -> None:
    machines, gone = Machines(redis_client), replace(WORKER, incarnation="bb")
    machines.announce(WORKER, with_queue=True)
    fall_silent(redis_client, gone, 86_500)
    assert machines.note_lost(gone.name)

    live, lost = machines.live_and_lost()

    assert ([worker.name for worker in live], lost) == ([WORKER.name], [])
    assert redis_client.hkeys(FLEET) == [WORKER.name]
    assert redis_client.hkeys(FLEET_MARKS) == []


def test_a_worker_of_another_version_may_tell_more_or_less(redis_client: redis.Redis) -> None:
    machines = Machines(redis_client)
    machines.announce(WORKER, with_queue=True)
    record = json.loads(str(redis_client.hget(FLEET, WORKER.name)))
    del record["version"]
    redis_client.hset(FLEET, WORKER.name, json.dumps({**record, "mood": "good"}))

    (found,) = machines.workers()

    assert (found.name, found.slots, found.version) == (WORKER.name, 32, None)
