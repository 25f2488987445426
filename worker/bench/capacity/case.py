"""The case `capacity`: the constants of docs/scaling.md here, and a prediction beside its check."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from sleipnir.records import dataclass
from sleipnir.scheduler.limits.records import Delay, Denied, Grant, Reservation, Used
from sleipnir.scheduler.limits.rules import Limit
from sleipnir.scheduler.process.cgroups import cores
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.machines import PRESENT_EVERY_S
from sleipnir.scheduler.store.rate_limiter import RateLimiter
from sleipnir.worker.bench.arena import LENGTH, TICKS, Arena
from sleipnir.worker.bench.capacity.model import PLANNED_LOAD, Constants, Load, needs, throughput
from sleipnir.worker.bench.capacity.replay import CLIENTS, replay
from sleipnir.worker.bench.capacity.server_figures import commands, cpu_s
from sleipnir.worker.bench.capacity.stored import WITH_CALLS, stored_kinds
from sleipnir.worker.bench.rows import Row
from sleipnir.worker.llm.limits.allotments import Allotments

CALLS = 1_000
RUNS = 600
NODES = 5
PROCESSES = (1, 2, 4)
DAILY = (100_000, 1_000_000, 10_000_000)
# Two limits of which CALLS_A_SECOND use a fifth; each call takes two seconds.
_LIMITS = tuple(Limit(name, 30_000, 30_000_000, 1_000) for name in ("openai", "openai:m"))
CALLS_A_SECOND = 100
# A full machine uses at least this share of its cores: where two processes use less, it is not.
_FULL = 0.8


def capacity(arena: Arena, rounds: int) -> Iterator[Row]:
    """Constants, what one Redis carries by them, and a prediction of throughput with its check."""
    arena.stop_workers()
    constants = Constants()
    for clients in CLIENTS:
        best_s = min(_replayed(arena, clients) for _ in range(max(1, rounds // 5)))
        yield _ms(f"Redis, a visit, {clients} client{'s' if clients > 1 else ''}", "visit", best_s)
        constants = replace(constants, redis_visit_s=best_s)
    alone_s = min(_limited(arena, allots=False) for _ in range(max(1, rounds // 5)))
    yield _ms("Redis, a model call with two limits", "call", alone_s)
    allotted_s = min(_limited(arena, allots=True) for _ in range(max(1, rounds // 5)))
    yield _ms(f"the same, {CALLS_A_SECOND} a second of a process", "call", allotted_s)
    constants = replace(constants, redis_call_s=alone_s, redis_allotted_s=allotted_s)
    idle = _idle(arena)
    yield Row("a worker's heartbeats", "commands/s", idle, idle)
    arena.start_worker()
    for name, kib in stored_kinds(arena):
        yield Row(f"Redis memory, {name}", "KiB/run", kib, kib)
        if name == WITH_CALLS:
            constants = replace(constants, kib_run=kib)
    worker_s = yield from _throughputs(arena)
    yield from _carried(replace(constants, worker_visit_s=worker_s))


def _ms(name: str, unit: str, seconds: float) -> Row:
    return Row(name, unit, 1000 * seconds, 1000 * seconds)


def _replayed(arena: Arena, clients: int) -> float:
    """Return the CPU of Redis for a visit that clients take, begin and advance, without Celery."""
    agent = arena.prepare(f"linear-{LENGTH}")
    before = cpu_s(arena.redis)
    visits = replay(arena.client, agent, clients)
    return (cpu_s(arena.redis) - before) / visits


class _Pace:
    """A clock of Redis and of a process, by which calls come evenly, however long they take."""

    def __init__(self) -> None:
        self.s = 1e9

    def ms(self) -> int:
        return int(self.s * 1000)

    def now(self) -> float:
        return self.s


def _limited(arena: Arena, *, allots: bool) -> float:
    """Return the CPU of Redis for reserving and releasing a call of a model with two limits.

    Args:
        allots: whether the process that makes them takes allotments.
    """
    pace = _Pace()
    limiter = RateLimiter(arena.redis, RedisClock(arena.redis, pace.ms))
    process = Allotments(limiter, list, pace.now)
    process.are_used = allots
    running: deque[Grant] = deque()
    before = cpu_s(arena.redis)
    for number in range(CALLS):
        grant = process.reserve(_call(number))
        if isinstance(grant, Delay | Denied):
            raise RuntimeError(f"a call that no limit holds up was not admitted: {grant}")
        running.append(grant)
        if len(running) > 2 * CALLS_A_SECOND:
            process.release(running.popleft(), Used(700, 0.001, 2.0))
        if number % CALLS_A_SECOND == 0:
            process.settle()
        pace.s += 1 / CALLS_A_SECOND
    for grant in running:
        process.release(grant, Used(700, 0.001, 2.0))
    process.settle()
    used_s = cpu_s(arena.redis) - before
    arena.redis.delete(*arena.redis.scan_iter("{limits}:*"))
    return used_s / CALLS


def _call(number: int) -> Reservation:
    return Reservation(
        f"bench/{number}",
        tuple(limit.name for limit in _LIMITS),
        ("0" * 16,),
        _LIMITS,
        tokens=500,
        worst_tokens=1_000,
    )


def _idle(arena: Arena) -> float:
    """Return the commands a second of a worker that has nothing to do but to wait for messages."""
    asked = commands(arena.redis)["brpop"]
    arena.begin_worker()
    while commands(arena.redis)["brpop"] == asked:  # it is starting
        pause(0.1)
    before = commands(arena.redis)
    pause(PRESENT_EVERY_S)
    spent = commands(arena.redis) - before
    arena.stop_workers()
    # To wait is to ask again each second, over connections that are tried every few seconds.
    return (spent.total() - spent["brpop"] - spent["ping"] - spent["info"]) / PRESENT_EVERY_S


@dataclass(frozen=True, slots=True)
class _Trial:
    """So many runs at once, by some worker processes."""

    visits_s: float  # visits a second
    cpu_s: float  # of a visit: of workers, Redis, and this process, which submits
    worker_s: float  # of the workers alone
    free: float  # cores that others left

    @property
    def used(self) -> float:
        """Share of these cores that the visits used."""
        return min(1.0, self.visits_s * self.cpu_s / self.free)


def _tried(arena: Arena, batch: str) -> _Trial:
    agent, visits = arena.prepare(f"linear-{NODES - 1}"), RUNS * NODES
    seen: list[tuple[float, float]] = []

    def look() -> tuple[float, float]:
        return sum(os.times()[:2]), _busy_cores_s()

    def act() -> None:
        before, began = look(), perf_counter()
        arena.submit_many(agent, RUNS, Request(batch=batch))
        after = look()
        seen.append((after[0] - before[0], after[1] - before[1]))
        seen.append((perf_counter() - began, 0.0))

    redis_before = cpu_s(arena.redis)
    sample = arena.measured(act, arena.ours)
    redis_s = cpu_s(arena.redis) - redis_before
    (own_s, busy_s), (wall_s, _) = seen
    ours_s = sample.cpu_seconds + redis_s + own_s
    free = cores() - max(0.0, busy_s - ours_s) / wall_s
    return _Trial(visits / wall_s, ours_s / visits, sample.cpu_seconds / visits, max(0.1, free))


def _busy_cores_s() -> float:
    """Return the CPU time that all processes of the machine have used; 0 where nothing tells."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    except OSError:
        return 0.0
    user, nice, system, _idle, _iowait, irq, softirq, _steal = map(int, fields)
    return (user + nice + system + irq + softirq) / TICKS


def _throughputs(arena: Arena) -> Generator[Row, None, float]:
    """Calibrate with one process and with two, predict and measure; return a worker's CPU a visit.

    One process tells what its loop takes, and two, which fill a small machine, what a visit costs
    and how much of the cores a full machine uses.
    """
    arena.run(arena.prepare(f"linear-{NODES - 1}"))
    _tried(arena, "warm-up")
    one = _tried(arena, "one")
    yield _ms("a worker, a visit", "visit", one.worker_s)
    arena.start_worker()
    arena.run(arena.prepare(f"linear-{NODES - 1}"))
    _tried(arena, "warm-up-2")
    two = _tried(arena, "two")
    yield from _checked(arena, one, two)
    return two.worker_s


def _checked(arena: Arena, one: _Trial, two: _Trial) -> Iterator[Row]:
    """Yield predictions, each with what was measured afterwards; the ratio is between them."""
    arena.stop_workers()
    for processes in PROCESSES:
        while len(arena.ours) < processes:
            arena.start_worker()
        _tried(arena, f"warm-up-of-{processes}")
        found = _tried(arena, f"of-{processes}")
        used = max(_FULL, two.used)
        told = throughput(processes, one.visits_s, two.cpu_s, found.free, used)
        name = f"{processes} worker process{'es' if processes > 1 else ''}"
        yield Row(f"{name}, predicted", "visits/s", told, told, ratio=told / found.visits_s)
        yield Row(f"{name}, measured", "visits/s", found.visits_s, found.visits_s)


def _carried(constants: Constants) -> Iterator[Row]:
    """What one Redis carries by these constants, and what the loads of docs/scaling.md take."""
    visits = PLANNED_LOAD / constants.redis_visit_s
    yield Row("one Redis carries, predicted", "visits/s", visits, visits)
    for what, call_s in (
        ("calls", constants.redis_call_s),
        ("allotted calls", constants.redis_allotted_s),
    ):
        calls = PLANNED_LOAD / call_s
        yield Row("one Redis carries, predicted", f"{what}/s", calls, calls)
    for runs in DAILY:
        found = needs(Load(runs), constants)
        for what, unit, value in (
            ("memory, a week kept", "GiB", found.memory_gib),
            ("Redis, visits", "cores", found.redis_load),
            ("Redis, limits", "cores", found.limits_load),
            ("workers", "cores", found.worker_cores),
            ("workers", "threads", found.threads),
        ):
            yield Row(f"{runs:,} runs a day, {what}", unit, value, value)
