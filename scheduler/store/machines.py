"""Live workers and their machines, as the workers themselves report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from time import monotonic
from typing import Any

import redis

from sleipnir.graphs.document.queues import DEFAULT_QUEUE
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.store.keys import (
    QUEUES,
    WORKERS,
    WORKING,
    machine_key,
    machine_queue,
    named_queue,
    serving_key,
    worker_key,
)

# Several heartbeat intervals: a worker that is silent for longer is lost.
EXPIRES_S = 20
# How long machines and queues are known to have a worker, and how often its worker says so.
_PRESENT_S = 60
PRESENT_EVERY_S = 25.0
# How long a worker is remembered that fell silent without having ended.
_KEPT_S = 86_400
_MOST_LOST = 50
_ASKED = "asked"  # to drain, of a worker's record; its heartbeats leave it alone
_NOTED = "noted"  # how often it was noted, for the audit log, that the worker was lost
# A worker tells of no more of the visits that it is executing.
MOST_VISITS = 64
# More named queues of one engine are refused: each reading of the engine reads all of them.
MOST_QUEUES = 64
# How long a program relies on the names that it has noted.
_NOTED_S = 60.0


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
    queues: tuple[str, ...] = (DEFAULT_QUEUE,)  # names of those that it serves, in order
    visits: tuple[str, ...] = ()  # that it is executing, as `RUN VISIT`: the first `MOST_VISITS`
    silent_s: float = 0.0  # since that heartbeat

    @property
    def name(self) -> str:
        return "/".join(filter(None, (self.machine, str(self.pid), self.incarnation)))

    def served(self) -> set[str]:
        """Return the queues that it takes messages from, if it takes pinned runs."""
        return {
            queue
            for name in self.queues
            for queue in (named_queue(name), machine_queue(self.machine, name))
        }


class Machines:
    """The machines whose workers use one Redis."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def announce(self, worker: WorkerState, *, with_queue: bool) -> bool:
        """Announce that a worker is alive, its machine has one, and its queues are served.

        Returns whether it was asked to drain. To be repeated every `PRESENT_EVERY_S`.

        Args:
            with_queue: whether it takes runs pinned to its machine.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            if with_queue:
                pipe.set(machine_key(worker.machine), "1", ex=_PRESENT_S)
            pipe.sadd(WORKERS, worker.name)
            pipe.expire(WORKERS, _KEPT_S)
            pipe.set(WORKING, "1", ex=_PRESENT_S)
            for queue in worker.served():
                if with_queue or "@" not in queue:
                    pipe.set(serving_key(queue), "1", ex=_PRESENT_S)
            _, was_asked = self._record(pipe, worker)
            return was_asked

    def beat(self, worker: WorkerState, *, with_queue: bool) -> bool:
        """Record a worker as of now, and return whether it was asked to drain: three commands.

        One that was taken for lost meanwhile, as its machine was suspended, is announced again.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            is_known, was_asked = self._record(pipe, worker)
        return was_asked if is_known else self.announce(worker, with_queue=with_queue)

    @staticmethod
    def _record(pipe: Any, worker: WorkerState) -> tuple[bool, bool]:
        """Record a worker; return whether it was known as alive, and was asked to drain."""
        fields = {
            name: "" if value is None else str(value) for name, value in asdict(worker).items()
        }
        fields |= {"queues": ",".join(worker.queues), _NOTED: "0"}
        fields["visits"] = "\n".join(worker.visits[:MOST_VISITS])
        key = worker_key(worker.name)
        pipe.hmget(key, _NOTED, _ASKED)
        pipe.hset(key, mapping=fields)
        pipe.expire(key, _KEPT_S)
        noted, asked = pipe.execute()[-3]
        return noted == "0", asked is not None

    def ask_to_drain(self, names: Iterable[str], *, undo: bool) -> None:
        """Ask workers to drain with their next heartbeats, or to take visits again."""
        with self._redis.pipeline(transaction=False) as pipe:
            for key in map(worker_key, names):
                if undo:
                    pipe.hdel(key, _ASKED)
                else:
                    pipe.hset(key, _ASKED, "1")
                    pipe.expire(key, _KEPT_S)
            pipe.execute()

    def leave(self, ended: WorkerState) -> None:
        """Record that a worker has ended, and what is without a worker since."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.delete(worker_key(ended.name))
            pipe.srem(WORKERS, ended.name)
            pipe.execute()
        self.withdraw(ended)

    def withdraw(self, gone: WorkerState) -> None:
        """Record that there is no worker where this one was the last: machine, queues, all."""
        live = self.workers()
        served = {queue for worker in live for queue in worker.served()}
        with self._redis.pipeline(transaction=False) as pipe:
            for queue in gone.served() - served:
                pipe.delete(serving_key(queue))
            if all(worker.machine != gone.machine for worker in live):
                pipe.delete(machine_key(gone.machine))
            if not live:
                pipe.delete(WORKING)
            pipe.execute()

    def any_work(self) -> bool:
        """Return whether there is a live worker, by one command however many there are."""
        return bool(self._redis.exists(WORKING))

    def unserved(self, queues: Iterable[str]) -> set[str]:
        """Return those of the queues that no live worker serves."""
        wanted = sorted(queues)
        if not wanted:
            return set()
        with self._redis.pipeline(transaction=False) as pipe:
            for queue in wanted:
                pipe.exists(serving_key(queue))
            answers = pipe.execute()
        return {queue for queue, is_served in zip(wanted, answers, strict=True) if not is_served}

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
        return int(self._redis.hincrby(worker_key(name), _NOTED, 1)) == 1

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
                draining=fields.get("draining") == str(True) or _ASKED in fields,
                queues=tuple(fields.get("queues", DEFAULT_QUEUE).split(",")),
                visits=tuple(fields.get("visits", "").splitlines()),
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


class QueueNames:
    """The names of queues that runs of one Redis have named lately."""

    def __init__(self, client: redis.Redis, retention_s: float) -> None:
        self._redis = client
        self._kept_s = int(2 * retention_s) + 1
        self._noted: dict[str, float] = {}

    def note(self, names: Iterable[str]) -> None:
        """Note the names of a new run's queues.

        Raises:
            SubmissionRefused: there would be too many.
        """
        stale = sorted(name for name in names if self._is_stale(name))
        if not stale:
            return
        known = self.known()
        if len(known.union(stale)) > MOST_QUEUES:
            raise SubmissionRefused(
                f"queue '{next(name for name in stale if name not in known)}' would be one too "
                f"many: runs have named {MOST_QUEUES} queues lately, the most there may be"
            )
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.zadd(QUEUES, dict.fromkeys(stale, self._now_s()))
            pipe.expire(QUEUES, self._kept_s)
            pipe.execute()
        self._noted |= dict.fromkeys(stale, monotonic())

    def _now_s(self) -> int:
        answer: Any = self._redis.time()
        return int(answer[0])

    def _is_stale(self, name: str) -> bool:
        return name not in self._noted or monotonic() - self._noted[name] > _NOTED_S

    def known(self) -> set[str]:
        """Return the names, the default one included."""
        self._redis.zremrangebyscore(QUEUES, "-inf", self._now_s() - self._kept_s)
        return {DEFAULT_QUEUE, *map(str, self._redis.zrange(QUEUES, 0, -1))}
