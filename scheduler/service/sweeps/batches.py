"""Batches of which a run has ended: hooks are told once all have."""

from __future__ import annotations

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.service.sweeps.tick import Tick
from sleipnir.scheduler.store.queries.batches import BatchQueries

# Timers of batches are set for hooks, and most engines have none.
with lazy_imports():
    from sleipnir.scheduler.store.hooks import batch_ends


def finish_batch(tick: Tick, digits: str, *words: str) -> None:
    """Record that a batch has finished, if all its runs have ended and no more are to come."""
    timer = batch_ends.BatchTimer(digits, " ".join(words))
    due_ms, held_until_ms = tick.store.batch_ends.read(timer)
    if due_ms is None:
        return
    if held_until_ms > tick.store.clock.now_ms():
        tick.store.batch_ends.postpone(timer, held_until_ms)
        return
    (row,) = BatchQueries(tick.store.client, tick.store.clock).batch_rows([timer.batch])
    if row is not None and row.is_finished and row.last_activity is not None:
        tick.store.batch_ends.record(row.name, row.agent or "", row.last_activity)
    tick.store.batch_ends.settle(timer, due_ms)
