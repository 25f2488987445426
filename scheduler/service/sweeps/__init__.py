"""What the scheduler does when a timer is due, by the timer's kind.

Each sweep re-reads the state in Redis and changes at most one run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sleipnir.scheduler.service.sweeps.batches import finish_batch
from sleipnir.scheduler.service.sweeps.deadlines import time_out_run
from sleipnir.scheduler.service.sweeps.hooks import deliver_event
from sleipnir.scheduler.service.sweeps.retention import forget_run
from sleipnir.scheduler.service.sweeps.schedules import fire_schedule
from sleipnir.scheduler.service.sweeps.tick import Tick
from sleipnir.scheduler.service.sweeps.visits import redeliver_visit
from sleipnir.scheduler.service.sweeps.waits import expire_wait

__all__ = ["LEASES", "SWEEPS", "Tick"]

LEASES = "visit"  # the kind of timers that judge whether a worker is alive
SWEEPS: Mapping[str, Callable[..., None]] = {
    LEASES: redeliver_visit,  # lost messages, expired leases
    "deadline": time_out_run,
    "wait": expire_wait,  # ended back-offs, late child runs and answers
    "expiry": forget_run,
    "schedule": fire_schedule,
    "hook": deliver_event,
    "batch": finish_batch,
}
