"""Notes workers that were lost: in the audit log, and for those who wait for one."""

from __future__ import annotations

import logging

from sleipnir.scheduler.store.audit.log import DONE, Act, AuditLog
from sleipnir.scheduler.store.machines import Machines, WorkerState
from sleipnir.scheduler.store.run_store import RunStore

logger = logging.getLogger("sleipnir.scheduler")


def note_lost_workers(store: RunStore) -> int:
    """Note each worker once that fell silent without having ended; return how many."""
    machines, audit = Machines(store.client), AuditLog(store.client)
    lost = [each for each in machines.lost() if machines.note_lost(each.name)]
    for worker in lost:
        machines.withdraw(worker)
        detail = _detail(worker)
        logger.warning("worker %s was lost: %s", worker.name, detail)
        audit.add(Act("scheduler", "", "scheduler", "worker lost", worker.name, DONE, "", detail))
    return len(lost)


def _detail(worker: WorkerState) -> str:
    return f"no heartbeat for {worker.silent_s:.0f} s; it was executing {worker.busy} visits"
