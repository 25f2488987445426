"""Finished runs whose retention time is over."""

from __future__ import annotations

from sleipnir.scheduler.service.sweeps.tick import Tick


def forget_run(tick: Tick, run_id: str, digest: str) -> None:
    """Remove the run and its place in the indexes."""
    tick.store.runs.purge(run_id, digest)
