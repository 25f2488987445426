"""Agent nodes whose child run takes longer than the node allows."""

from __future__ import annotations

import logging

from sleipnir.scheduler.service.sweeps.tick import Tick

logger = logging.getLogger("sleipnir.scheduler")


def expire_child(tick: Tick, run_id: str, visit: str) -> None:
    """Cancel the child and resume the node, which fails with R016."""
    tick.store.parking.expire_child(run_id, visit)
    logger.info("run %s visit %s: its child took too long", run_id, visit)
