"""The model of docs/scaling.md: what an installation carries, from a few constants."""

from __future__ import annotations

from sleipnir.records import dataclass
from sleipnir.worker.llm.limits.allotments import FEWEST_CALLS

DAY_S = 86_400
# Plan for so much of a core of Redis: beyond it, waiting grows and a peak finds no room.
PLANNED_LOAD = 0.6
# Plan for so much of a worker's threads.
PLANNED_THREADS = 0.8
# Rewriting the append-only file may take as much memory again.
REWRITE = 2


@dataclass(frozen=True, slots=True)
class Constants:
    """What was measured of an installation; CPU times in seconds.

    The defaults are those of docs/scaling.md: of a Redis with a core of its own.
    """

    redis_visit_s: float = 0.000_13  # of Redis, for a visit of an empty node, many clients
    redis_call_s: float = 0.000_28  # of Redis, for a model call with two limits
    redis_allotted_s: float = 0.000_02  # the same, if a process makes many
    worker_visit_s: float = 0.000_6
    worker_call_s: float = 0.000_64
    kib_run: float = 33.4  # kept of a finished run


@dataclass(frozen=True, slots=True)
class Load:
    """Runs a day, and what they do: the defaults are the example of docs/scaling.md."""

    runs_a_day: float
    visits: float = 7
    calls: float = 6  # of models, each with two limits
    call_s: float = 5.0
    threads: int = 640  # of a worker process: its `concurrency`
    peak: float = 5.0  # times the mean
    retention_s: float = 7 * DAY_S


@dataclass(frozen=True, slots=True)
class Needs:
    """What a load takes at its peak; memory all the time."""

    visits_a_second: float
    calls_a_second: float
    redis_load: float  # cores of Redis, of the visits
    limits_load: float  # the same, of the limited calls
    threads: float
    worker_cores: float
    memory_gib: float


def needs(load: Load, constants: Constants) -> Needs:
    """Return what a load takes."""
    runs_a_second = load.peak * load.runs_a_day / DAY_S
    visits, calls = runs_a_second * load.visits, runs_a_second * load.calls
    calls_of_process = min(calls, load.threads * PLANNED_THREADS / load.call_s)
    is_allotted = calls_of_process >= FEWEST_CALLS
    redis_call_s = constants.redis_allotted_s if is_allotted else constants.redis_call_s
    return Needs(
        visits,
        calls,
        visits * constants.redis_visit_s,
        calls * redis_call_s,
        calls * load.call_s / PLANNED_THREADS,
        visits * constants.worker_visit_s + calls * constants.worker_call_s,
        load.runs_a_day / DAY_S * load.retention_s * constants.kib_run * REWRITE / 2**20,
    )


def throughput(processes: int, one: float, cpu_s: float, cores: float, used: float = 1.0) -> float:
    """Return how many visits a second worker processes take on one machine with Redis.

    Args:
        one: what one process takes, bound by its one loop that takes messages.
        cpu_s: of a visit, of all that runs on the machine: workers, Redis, who submits.
        cores: free for it.
        used: share of these that a full machine uses, as its parts wait for each other.
    """
    return min(processes * one, cores * used / cpu_s)
