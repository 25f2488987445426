"""Time-outs of waits: back-offs that have ended, and late child runs and answers."""

from __future__ import annotations

import logging

from sleipnir.scheduler.service.sweeps.tick import Tick

logger = logging.getLogger("sleipnir.scheduler")


def expire_wait(tick: Tick, run_id: str, visit: str, call: str) -> None:
    """Resume a visit without what it waited for; a child run is cancelled."""
    if tick.store.parking.expire(run_id, visit, call) == "child":
        said = {"run_id": run_id, "visit": visit}
        logger.info("run %s visit %s: its child took too long", run_id, visit, extra=said)
