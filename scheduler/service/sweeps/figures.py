"""Adds up the sums of hours that are over, so that years are read in an instant."""

from __future__ import annotations

from sleipnir.scheduler.store.figures.folding import fold
from sleipnir.scheduler.store.run_store import RunStore


def add_up_hours(store: RunStore) -> int:
    """Add up the hours that are over; return how many. Several schedulers may do so at once."""
    kept_ms = round(store.settings.spend_retention_s * 1000)
    return fold(store.client, store.clock.now_ms(), kept_ms)
