"""Visits whose time is over for what they wait for: a back-off, or a child run that takes long."""

from __future__ import annotations

import logging

from sleipnir.scheduler.service.sweeps.tick import Tick

logger = logging.getLogger("sleipnir.scheduler")


def expire_wait(tick: Tick, run_id: str, visit: str, call: str) -> None:
    """Let a visit go on without what it waited for; a child run is cancelled."""
    if tick.store.parking.expire(run_id, visit, call) == "child":
        logger.info("run %s visit %s: its child took too long", run_id, visit)
