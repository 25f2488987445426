"""Batches of which a run has ended: hooks are told once all have."""

from __future__ import annotations

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.service.sweeps.tick import Tick
from sleipnir.scheduler.store.queries.batches import BatchQueries

# Timers of batches are set for hooks, and most engines have none.
with lazy_imports():
    from sleipnir.scheduler.store.hooks import batch_ends

# Who submits a batch without saying how many lines it has may submit the next one within this.
_NEXT_LINE_MS = 60_000


def finish_batch(tick: Tick, digits: str, *words: str) -> None:
    """Record that a batch has finished, if all its runs have ended and no more are to come."""
    timer, ends = batch_ends.BatchTimer(digits, " ".join(words)), tick.store.batch_ends
    due_ms, until_ms = ends.read(timer)
    if due_ms is None:
        return
    if timer != batch_ends.BatchTimer.own(timer.batch):
        ends.look(timer.batch)  # once for all partitions in which runs of it end
        ends.settle(timer, due_ms)
        return
    now_ms = tick.store.clock.now_ms()
    if until_ms <= now_ms:
        (row,) = BatchQueries(tick.store.client, tick.store.clock).batch_rows([timer.batch])
        if row is not None and row.is_finished and row.last_activity is not None:
            until_ms = 0 if row.lines else row.last_activity + _NEXT_LINE_MS
            if until_ms <= now_ms:
                ends.record(
                    row.name,
                    row.agent or "",
                    row.last_activity,
                    tick.store.batches.webhook(row.name),
                )
    if until_ms > now_ms:
        ends.postpone(timer, until_ms)
    else:
        ends.settle(timer, due_ms)
