"""Removal of finished runs after their retention time."""

from __future__ import annotations

from sleipnir.scheduler.service.sweeps.tick import Tick


def forget_run(tick: Tick, run_id: str) -> None:
    """Remove the run and its index entries, unless an archive does not have it yet."""
    tick.store.runs.purge(run_id, by_hand=False)
