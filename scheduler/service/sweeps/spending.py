"""Adds up what was spent on the days that are over, so that years are read in an instant."""

from __future__ import annotations

from sleipnir.scheduler.store.daily_spending import DailySpending
from sleipnir.scheduler.store.run_store import RunStore


def add_up_days(store: RunStore) -> int:
    """Add up the days that are over; return how many. Several schedulers may do so at once."""
    kept_ms = round(store.settings.spend_retention_s * 1000)
    return DailySpending(store.client).fold(store.clock.now_ms(), kept_ms)
