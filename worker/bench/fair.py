"""What an interactive run takes while a batch is queued."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.scheduler.runs.submit import Request
from sleipnir.worker.bench.agents import LONG_PAUSE_MS
from sleipnir.worker.bench.arena import STEPS, Arena, open_arena
from sleipnir.worker.bench.rows import Row, row

_THREADS = 32
_PROCESSES = 2


def fair(arena: Arena, rounds: int) -> Iterator[Row]:
    """The same run on idle workers and behind a batch, on an arena of its own."""
    backlog = arena.backlog
    with open_arena(_THREADS) as own:
        while len(own.ours) < _PROCESSES:
            own.start_worker()
        agent = own.prepare(f"pausing-{STEPS}")
        own.run(agent)
        alone = [own.run(agent) for _ in range(rounds)]
        for _ in range(backlog):
            own.client.submit(agent, Request(batch="backlog"))
        behind = [own.run(agent) for _ in range(rounds)]
    name = f"run of {STEPS} nodes of {LONG_PAUSE_MS} ms"
    yield row(f"{name}, alone", "run", 1, alone, alone)
    yield row(f"the same behind {backlog:,} of a batch", "run", 1, behind, alone)
