"""Adds up what was spent on the days that are over, so that years are read in an instant."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from sleipnir.scheduler.store.daily_spending import DailySpending
from sleipnir.scheduler.store.run_store import RunStore


class SpendingSweep:
    """Adds up days some time after their end; several schedulers may do so at once."""

    def __init__(
        self,
        store: RunStore,
        monotonic: Callable[[], float],
        interval: timedelta = timedelta(hours=1),
    ) -> None:
        self._store = store
        self._monotonic = monotonic
        self._interval_s = interval.total_seconds()
        self._due_s = monotonic()

    def run_if_due(self) -> None:
        """Sweep at first, as an embedded engine may stop soon, and then at intervals."""
        if self._monotonic() >= self._due_s:
            self._due_s = self._monotonic() + self._interval_s
            self.run_once()

    def run_once(self) -> int:
        """Add up the days that are over; return how many there were."""
        kept_ms = round(self._store.settings.spend_retention_s * 1000)
        return DailySpending(self._store.client).fold(self._store.clock.now_ms(), kept_ms)
