"""Notes workers that were lost in the audit log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from sleipnir.scheduler.store.audit.log import DONE, Act, AuditLog
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.scheduler.store.run_store import RunStore

logger = logging.getLogger("sleipnir.scheduler")


class LostWorkersSweep:
    """Notes each worker once that fell silent without having ended."""

    def __init__(
        self,
        store: RunStore,
        monotonic: Callable[[], float],
        interval: timedelta = timedelta(seconds=10),
    ) -> None:
        self._machines = Machines(store.client)
        self._audit = AuditLog(store.client)
        self._monotonic = monotonic
        self._interval_s = interval.total_seconds()
        self._last = monotonic()

    def run_if_due(self) -> None:
        """Sweep, if the interval has passed."""
        if self._monotonic() - self._last >= self._interval_s:
            self._last = self._monotonic()
            self.run_once()

    def run_once(self) -> int:
        """Note the workers that were lost since; return how many."""
        lost = [each for each in self._machines.lost() if self._machines.note_lost(each.name)]
        for worker in lost:
            logger.warning("worker %s was lost: %s", worker.name, _detail(worker))
            self._audit.add(
                Act(
                    "scheduler",
                    "",
                    "scheduler",
                    "worker lost",
                    worker.name,
                    DONE,
                    "",
                    _detail(worker),
                )
            )
        return len(lost)


def _detail(worker: WorkerState) -> str:
    return f"no heartbeat for {worker.silent_s:.0f} s; it was executing {worker.busy} visits"
