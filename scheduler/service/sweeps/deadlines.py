"""Time-outs of runs past their wall-clock deadline."""

from __future__ import annotations

import logging

from sleipnir.scheduler.runs.model import Failure
from sleipnir.scheduler.service.sweeps.tick import Tick

logger = logging.getLogger("sleipnir.scheduler")


def time_out_run(tick: Tick, run_id: str) -> None:
    """End the run as timed out; its leases and children end with it."""
    limit_s = tick.store.runs.time_limit_s(run_id)
    failure = Failure("R005", f"the run took longer than its limit of {limit_s:g}s", None)
    if tick.store.runs.close(run_id, "timed_out", failure):
        logger.info("run %s timed out", run_id, extra={"run_id": run_id, "code": failure.code})
