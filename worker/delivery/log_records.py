"""Log records about runs in the log files of workers, from the logger `sleipnir.graph`.

INFO has starts, ends and a summary; DEBUG has visits, routes and the size of the state. The state
itself may hold secrets and is never logged. Nothing is formatted unless it is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.plan import Branch, Plan
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.visit.context import Visit

# Lazy, as few workers log the summaries of runs.
with lazy_imports():
    from sleipnir.scheduler.runs import history
    from sleipnir.scheduler.store import queries

logger = logging.getLogger("sleipnir.graph")


def log_fields(delivery: Delivery) -> dict[str, object]:
    """Return what lines of the log say about the visit that this thread executes."""
    visit, spans = delivery.visit, delivery.services.spans
    return {
        **({} if spans is None else spans.ids(visit, delivery.begun)),
        "run_id": visit.run_id,
        "agent": visit.graph.name,
        "node": visit.node_id,
        "visit": str(visit.visit_id),
        "attempt": visit.attempt,
    }


def log_begin(visit: Visit[Any]) -> None:
    """Log that a node begins; the first one also starts the run."""
    if visit.step == 1 and visit.resumed_with is None and logger.isEnabledFor(logging.INFO):
        logger.info("[graph:%s] run %s started", visit.graph.name, visit.run_id)
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug(
            "[graph:%s] run %s step %d: %s (%s)",
            visit.graph.name,
            visit.run_id,
            visit.step,
            visit.node_id,
            visit.node.type,
        )
        if visit.graph.settings.log_state_snapshots:
            logger.debug(
                "[graph:%s] run %s state read: %d bytes, keys %s",
                visit.graph.name,
                visit.run_id,
                sum(len(visit.state.text(key) or "") for key in visit.state),
                sorted(visit.state),
            )


def log_step(visit: Visit[Any], branches: Mapping[str, Branch], plan: Plan) -> None:
    """Log what was decided on a step."""
    name, run_id = visit.graph.name, visit.run_id
    for node_id, branch in sorted(branches.items()):
        if branch.tolerated is not None:
            kept = branch.failures.kept
            logger.warning(
                "[graph:%s] run %s: %s failed: %s",
                name,
                run_id,
                node_id,
                branch.tolerated,
                extra={"node": node_id, "code": kept[0].code if kept else None},
            )
        for warning in (branch.timing or {}).get("warnings", ()):
            logger.warning("[graph:%s] run %s: %s", name, run_id, warning)
    for route in plan.dropped:
        logger.warning("[graph:%s] run %s: route %s dropped, the graph ended", name, run_id, route)
    if plan.frontier and logger.isEnabledFor(logging.DEBUG):
        logger.debug(
            "[graph:%s] run %s: %s -> %s",
            name,
            run_id,
            ", ".join(sorted(branches)),
            ", ".join(plan.frontier),
        )


def log_end(visit: Visit[Any], status: str, code: str | None, store: RunStore) -> None:
    """Log how a run ended, by which failure, and where its time went."""
    if not logger.isEnabledFor(logging.INFO):
        return
    name = visit.graph.name
    logger.info("[graph:%s] run %s %s", name, visit.run_id, status, extra={"code": code})
    lines = [f"[graph:{name}] performance summary (slowest first):"]
    lines += [
        f"[graph:{name}]   {row.node}: {row.visits} visit(s), total {row.total_ms}ms, "
        f"avg {row.avg_ms:.0f}ms, max {row.max_ms}ms"
        for row in history.node_times(queries.RunQueries(store.client).history(visit.run_id))
    ]
    logger.info("%s", "\n".join(lines))
