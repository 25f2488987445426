"""Redelivery of visits that nobody works on: lost messages, dead workers, ended pauses."""

from __future__ import annotations

import logging

from sleipnir.scheduler.service.sweeps.tick import Tick

logger = logging.getLogger("sleipnir.scheduler")


def redeliver_visit(tick: Tick, run_id: str, visit: str) -> None:
    """Publish a visit again, or fail its run after too many lost workers."""
    done = tick.store.visits.redeliver(run_id, visit)
    if done == "given_up":
        said = {"run_id": run_id, "visit": visit, "code": "R022"}
        logger.warning(
            "run %s failed: visit %s lost its worker too often", run_id, visit, extra=said
        )
    else:
        said = {"run_id": run_id, "visit": visit}
        logger.debug("run %s visit %s: %s", run_id, visit, done, extra=said)
