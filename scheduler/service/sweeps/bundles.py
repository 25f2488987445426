"""Removal of bundles that no run needs any more."""

from __future__ import annotations

import logging
from datetime import timedelta
from time import monotonic

from sleipnir.scheduler.store.run_store import RunStore

logger = logging.getLogger("sleipnir.scheduler")


class BundleSweep:
    """Removes bundles that no run uses and that nobody submitted for a day.

    The day protects a bundle between its upload and the submission that it is for.
    """

    def __init__(
        self,
        store: RunStore,
        interval: timedelta = timedelta(hours=1),
        unused_for: timedelta = timedelta(days=1),
    ) -> None:
        self._store = store
        self._interval_s = interval.total_seconds()
        self._unused_for = unused_for
        self._last = monotonic()

    def run_if_due(self) -> None:
        """Sweep, if the interval has passed."""
        if monotonic() - self._last >= self._interval_s:
            self._last = monotonic()
            self.run_once()

    def run_once(self, limit: int = 100) -> int:
        """Remove up to `limit` unused bundles; return how many."""
        removed = self._store.bundles.remove_unused(self._unused_for, limit)
        if removed:
            logger.info("removed %d unused bundles", removed)
        return removed
