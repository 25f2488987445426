"""Live workers and their machines, as the workers themselves report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import redis

from sleipnir.records import dataclass
from sleipnir.scheduler.store.keys import WORKERS, WORKING, machine_key, worker_key

# Several heartbeat intervals.
EXPIRES_S = 20
# How long a worker is remembered that fell silent without having ended.
_KEPT_S = 86_400
_MOST_LOST = 50
_NOTED = "noted"  # set once it is in the audit log that the worker was lost


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker process as of its latest heartbeat."""

    machine: str
    pid: int
    slots: int  # visits it can execute at once
    busy: int  # visits it is executing
    taken: int  # visits it has begun since its start
    idle_s: float  # since it began its latest visit, or since its start
    memory_bytes: int
    incarnation: str = ""  # random: in containers all processes have equal pids
    version: str | None = None  # of Sleipnir; None if it is not installed as a package
    age_s: float = 0.0  # since its start
    draining: bool = False  # takes no more visits, as it is to stop
    silent_s: float = 0.0  # since that heartbeat

    @property
    def name(self) -> str:
        return "/".join(filter(None, (self.machine, str(self.pid), self.incarnation)))


class Machines:
    """The machines whose workers use one Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def announce(self, worker: WorkerState, *, with_queue: bool) -> None:
        """Announce for `EXPIRES_S` that a worker, and with it its machine, is alive.

        Args:
            with_queue: whether it takes runs pinned to its machine.
        """
        fields: dict[Any, Any] = {
            name: "" if value is None else str(value) for name, value in asdict(worker).items()
        }
        key = worker_key(worker.name)
        with self._redis.pipeline(transaction=False) as pipe:
            if with_queue:
                pipe.set(machine_key(worker.machine), "1", ex=EXPIRES_S)
            pipe.hset(key, mapping=fields)
            pipe.hdel(key, _NOTED)
            pipe.expire(key, _KEPT_S)
            pipe.sadd(WORKERS, worker.name)
            pipe.expire(WORKERS, _KEPT_S)
            pipe.set(WORKING, "1", ex=EXPIRES_S)
            pipe.execute()

    def leave(self, name: str) -> None:
        """Record that a worker has ended."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.delete(worker_key(name))
            pipe.srem(WORKERS, name)
            pipe.scard(WORKERS)
            *_, left = pipe.execute()
        if left == 0:
            self._redis.delete(WORKING)

    def any_work(self) -> bool:
        """Return whether there is a live worker, by one command however many there are."""
        return bool(self._redis.exists(WORKING))

    def slots(self) -> int:
        """Return how many visits all live workers together can execute at once."""
        return sum(worker.slots for worker in self.workers())

    def workers(self) -> list[WorkerState]:
        """Return the live workers, sorted by machine."""
        return [worker for worker in self._all() if worker.silent_s < EXPIRES_S]

    def lost(self) -> list[WorkerState]:
        """Return the workers that fell silent within a day without having ended, latest first."""
        silent = [worker for worker in self._all() if worker.silent_s >= EXPIRES_S]
        return sorted(silent, key=lambda worker: worker.silent_s)[:_MOST_LOST]

    def note_lost(self, name: str) -> bool:
        """Return whether this is the first to note that a worker was lost."""
        return bool(self._redis.hsetnx(worker_key(name), _NOTED, "1"))

    def _all(self) -> list[WorkerState]:
        """Return the workers that are remembered, and remove the names of others."""
        names = sorted(map(str, self._redis.smembers(WORKERS)))
        with self._redis.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.hgetall(worker_key(name))
                pipe.pttl(worker_key(name))
            answers = pipe.execute()
        found = dict(zip(names, zip(answers[::2], answers[1::2], strict=True), strict=True))
        if gone := [name for name, (fields, _) in found.items() if not fields]:
            self._redis.srem(WORKERS, *gone)
        return [
            WorkerState(
                machine=fields["machine"],
                pid=int(fields["pid"]),
                slots=int(fields["slots"]),
                busy=int(fields["busy"]),
                taken=int(fields["taken"]),
                idle_s=float(fields["idle_s"]),
                memory_bytes=int(fields["memory_bytes"]),
                incarnation=fields.get("incarnation", ""),
                version=fields.get("version") or None,
                age_s=float(fields.get("age_s", 0)),
                draining=fields.get("draining") == str(True),
                silent_s=max(0.0, _KEPT_S - left_ms / 1000),
            )
            for fields, left_ms in found.values()
            if fields
        ]

    def have_worker(self, machine: str) -> bool:
        """Return whether that machine has a live worker."""
        return bool(self._redis.exists(machine_key(machine)))

    def without_worker(self, machines: Iterable[str | None]) -> set[str]:
        """Return those of the machines that have no live worker."""
        named = {machine for machine in machines if machine}
        return {machine for machine in named if not self.have_worker(machine)}
