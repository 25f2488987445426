"""What the scheduler does when a timer is due, by the timer's kind.

Each is a call that looks again at the truth in Redis and changes at most one run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sleipnir.scheduler.service.sweeps.children import expire_child
from sleipnir.scheduler.service.sweeps.deadlines import time_out_run
from sleipnir.scheduler.service.sweeps.retention import forget_run
from sleipnir.scheduler.service.sweeps.tick import Tick
from sleipnir.scheduler.service.sweeps.visits import redeliver_visit

__all__ = ["SWEEPS", "Tick"]

SWEEPS: Mapping[str, Callable[..., None]] = {
    "visit": redeliver_visit,  # lost messages, expired leases, ended back-offs
    "deadline": time_out_run,
    "child": expire_child,
    "expiry": forget_run,
}
