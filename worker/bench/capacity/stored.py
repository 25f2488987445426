"""What runs take of Redis' memory, by kind; used by the cases `memory` and `capacity`."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.scheduler.runs.events import QuestionAsked, RunEnded
from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.bench.agents import REPLIES, TURNS
from sleipnir.worker.bench.arena import Arena
from sleipnir.worker.bench.parked import used_memory

WITH_CALLS = f"finished, {REPLIES} model calls"
# Name, agent, and how many runs.
_KINDS = (
    ("asking", "asking", 1_000),
    ("finished, 5 nodes", "linear-4", 1_000),
    (WITH_CALLS, "telling", 500),
    (f"finished, {TURNS} turns", f"talker-{TURNS}", 30),
)


def stored_kinds(arena: Arena) -> Iterator[tuple[str, float]]:
    """Yield kinds of runs with the KiB that one takes, once it waits or has ended."""
    for name, agent, count in _KINDS:
        prepared = arena.prepare(agent)
        before = used_memory(arena)
        for run_id in [arena.client.submit(prepared, Request()) for _ in range(count)]:
            for entry in arena.client.queries.follow(run_id):
                if isinstance(entry.event, QuestionAsked | RunEnded):
                    break
        yield name, (used_memory(arena) - before) / count / 1024
