"""The case `parked`: what conversations cost while they wait for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.events import QuestionAsked
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.keys import run_key
from sleipnir.worker.bench.agents import ASKER
from sleipnir.worker.bench.arena import Arena
from sleipnir.worker.bench.rows import Row, Sample, row

_KIB = 1024


def parked(arena: Arena, rounds: int) -> Iterator[Row]:
    """Redis memory beyond the conversations' text, and what one second takes while they wait."""
    agent = arena.prepare(ASKER)
    _await_question(arena, arena.client.submit(agent, Request()))
    none = _seconds(arena, rounds)
    yield row("a second, 1 conversation parked", "second", 1, *none)
    before = used_memory(arena)
    ids = [arena.client.submit(agent, Request()) for _ in range(arena.parked)]
    for run_id in ids:
        _await_question(arena, run_id)
    many = f"{arena.parked:,} conversations parked"
    yield row(f"a second, {many}", "second", 1, *_seconds(arena, rounds))
    used = (used_memory(arena) - before) / len(ids)
    text = int(arena.redis.hget(run_key("run", ids[0]), "bytes"))
    for name, size in (("text", text), ("beyond it", used - text)):
        yield Row(f"{many}, {name}", "KiB/run", size / _KIB, size / _KIB)


def _await_question(arena: Arena, run_id: str) -> None:
    for entry in arena.client.queries.follow(run_id):
        if isinstance(entry.event, QuestionAsked):
            return


def _seconds(arena: Arena, rounds: int) -> tuple[list[Sample], None, float]:
    """Measure the workers for some seconds, and the Redis commands per second."""
    samples: list[Sample] = []

    def look() -> None:
        samples.extend(arena.measured(partial(pause, 1), arena.ours) for _ in range(rounds))

    return samples, None, commands_of(arena, look) / rounds


def commands_of(arena: Arena, act: Callable[[], Any]) -> float:
    """Return the number of Redis commands during `act`, including those inside scripts."""

    def count() -> int:
        stats = arena.redis.info("commandstats")
        return sum(int(entry["calls"]) for entry in stats.values())

    before = count()
    act()
    return count() - before


def used_memory(arena: Arena) -> int:
    """Return the bytes of the data that Redis stores."""
    return int(arena.redis.info("memory")["used_memory_dataset"])
