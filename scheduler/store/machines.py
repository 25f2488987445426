"""Live workers and their machines, as the workers themselves report."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from time import monotonic
from typing import Any

import redis

from sleipnir.graphs.document.queues import DEFAULT_QUEUE
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.keys import (
    FLEET,
    FLEET_MARKS,
    QUEUES,
    WORKING,
    machine_key,
    machine_queue,
    named_queue,
    serving_key,
)

# Several heartbeat intervals: a worker that is silent for longer is lost.
EXPIRES_S = 20
# How long machines and queues are known to have a worker, and how often its worker says so.
_PRESENT_S = 60
PRESENT_EVERY_S = 25.0
# How long a worker is remembered that fell silent without having ended.
_KEPT_S = 86_400
_MOST_LOST = 50
# Marks of workers, which stand before their names.
_ASKED = "asked"  # to drain
_NOTED = "noted"  # how often it was noted, for the audit log, that the worker was lost
_MARKS = (_ASKED, _NOTED)
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

    def to_record(self, now_ms: int) -> dict[str, Any]:
        """Return what is stored of it when it is heard of."""
        return {**asdict(self), "visits": self.visits[:MOST_VISITS], "beat_ms": now_ms}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], now_ms: int, *, asked: bool) -> WorkerState:
        """Read it as of now; `asked` to drain, it does so, or will with its next heartbeat."""
        stored = {name: record[name] for name in _STORED if name in record}
        stored["draining"] |= asked
        stored["queues"], stored["visits"] = tuple(stored["queues"]), tuple(stored["visits"])
        return cls(**stored, silent_s=max(0, now_ms - record["beat_ms"]) / 1000)


# A worker of another version may tell more, or less.
_STORED = {field.name for field in fields(WorkerState)} - {"silent_s"}


class Machines:
    """The machines whose workers use one Redis.

    Args:
        clock: says when workers are heard of, and since when they are silent.
    """

    def __init__(self, client: redis.Redis, clock: RedisClock | None = None) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._clock = clock or RedisClock(client)

    def announce(self, worker: WorkerState, *, with_queue: bool) -> bool:
        """Announce that a worker is alive, its machine has one, and its queues are served.

        Returns whether it was asked to drain. To be repeated every `PRESENT_EVERY_S`.

        Args:
            with_queue: whether it takes runs pinned to its machine.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            self._record(pipe, worker)
            pipe.expire(FLEET, _KEPT_S)
            pipe.hdel(FLEET_MARKS, _mark(_NOTED, worker.name))
            pipe.expire(FLEET_MARKS, _KEPT_S)
            if with_queue:
                pipe.set(machine_key(worker.machine), "1", ex=_PRESENT_S)
            pipe.set(WORKING, "1", ex=_PRESENT_S)
            for queue in worker.served():
                if with_queue or "@" not in queue:
                    pipe.set(serving_key(queue), "1", ex=_PRESENT_S)
            _, (_, asked), *_ = pipe.execute()
        return asked is not None

    def beat(self, worker: WorkerState, *, with_queue: bool) -> bool:
        """Record a worker as of now, and return whether it was asked to drain: three commands.

        One that was taken for lost meanwhile, as its machine was suspended, is announced again.
        """
        with self._redis.pipeline(transaction=False) as pipe:
            self._record(pipe, worker)
            is_new, (noted, asked) = pipe.execute()
        if is_new or noted is not None:
            return self.announce(worker, with_queue=with_queue)
        return asked is not None

    def _record(self, pipe: Any, worker: WorkerState) -> None:
        """Add commands that tell whether it is new, and whether it was noted as lost and asked."""
        record = json.dumps(worker.to_record(self._clock.now_ms()), separators=(",", ":"))
        pipe.hset(FLEET, worker.name, record)
        pipe.hmget(FLEET_MARKS, [_mark(each, worker.name) for each in (_NOTED, _ASKED)])

    def ask_to_drain(self, names: Iterable[str], *, undo: bool) -> None:
        """Ask workers to drain with their next heartbeats, or to take visits again."""
        with self._redis.pipeline(transaction=False) as pipe:
            for mark in (_mark(_ASKED, name) for name in names):
                if undo:
                    pipe.hdel(FLEET_MARKS, mark)
                else:
                    pipe.hset(FLEET_MARKS, mark, "1")
            pipe.expire(FLEET_MARKS, _KEPT_S)
            pipe.execute()

    def leave(self, ended: WorkerState) -> None:
        """Record that a worker has ended, and what is without a worker since."""
        self._forget([ended.name])
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
        return self.live_and_lost()[0]

    def lost(self) -> list[WorkerState]:
        """Return the workers that fell silent within a day without having ended, latest first."""
        return self.live_and_lost()[1]

    def live_and_lost(self) -> tuple[list[WorkerState], list[WorkerState]]:
        """Return both by three commands, however many there are."""
        live: list[WorkerState] = []
        lost: list[WorkerState] = []
        for worker in self._remembered():
            (live if worker.silent_s < EXPIRES_S else lost).append(worker)
        return live, sorted(lost, key=lambda worker: worker.silent_s)[:_MOST_LOST]

    def note_lost(self, name: str) -> bool:
        """Return whether this is the first to note that a worker was lost."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hincrby(FLEET_MARKS, _mark(_NOTED, name), 1)
            pipe.expire(FLEET_MARKS, _KEPT_S)
            times, _ = pipe.execute()
        return bool(times == 1)

    def _remembered(self) -> list[WorkerState]:
        """Return the workers heard of within a day by name, and forget the others."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hgetall(FLEET)
            pipe.hgetall(FLEET_MARKS)
            records, marks = pipe.execute()
        names, now_ms = sorted(records), self._clock.now_ms()
        # Parsed at once: one by one takes half as long again.
        read = json.loads(f"[{','.join(records[name] for name in names)}]")
        found = [
            WorkerState.from_record(record, now_ms, asked=_mark(_ASKED, name) in marks)
            for name, record in zip(names, read, strict=True)
        ]
        if gone := [worker.name for worker in found if worker.silent_s >= _KEPT_S]:
            self._forget(gone)
        return [worker for worker in found if worker.silent_s < _KEPT_S]

    def _forget(self, names: Sequence[str]) -> None:
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hdel(FLEET, *names)
            pipe.hdel(FLEET_MARKS, *(_mark(each, name) for name in names for each in _MARKS))
            pipe.execute()

    def have_worker(self, machine: str) -> bool:
        """Return whether that machine has a live worker."""
        return bool(self._redis.exists(machine_key(machine)))

    def without_worker(self, machines: Iterable[str | None]) -> set[str]:
        """Return those of the machines that have no live worker."""
        named = {machine for machine in machines if machine}
        return {machine for machine in named if not self.have_worker(machine)}


def _mark(kind: str, worker: str) -> str:
    return f"{kind} {worker}"


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
