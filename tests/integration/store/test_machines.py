"""Records of live workers: each process has its own, whatever its machine and pid."""

from __future__ import annotations

from dataclasses import replace

import redis

from sleipnir.scheduler.store.machines import Machines, WorkerState

WORKER = WorkerState(
    "team-host", 1, slots=32, busy=0, taken=0, idle_s=0.0, memory_bytes=0, incarnation="aa"
)


def test_workers_in_containers_with_equal_pids_are_counted_apart(redis_client: redis.Redis) -> None:
    machines = Machines(redis_client)
    other = replace(WORKER, incarnation="bb")
    for worker in (WORKER, other):
        machines.announce(worker, with_queue=True)

    assert machines.slots() == 64
    machines.leave(WORKER.name)
    assert [worker.name for worker in machines.workers()] == [other.name]
