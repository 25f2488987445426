"""Decides which of the routes in its `next` a visit takes, before anything is committed."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.routes import decide
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Failed, Nothing, Wrote


def routed(visit: Visit[Any], outcome: Wrote) -> Wrote | Failed:
    """Return the outcome with the targets that the node's conditions choose, on its own writes."""
    way_on = visit.node.conditional_next
    try:
        decision = decide(
            visit.node_id,
            way_on,
            _names(visit, outcome),
            visit.visit_of_node,
            value_bytes=visit.limits.value_bytes,
            mask=visit.mask,
        )
    except NodeFailed as failure:
        return Failed(failure.code, visit.mask(failure.message), outcome.usage, undecided=True)
    return replace(outcome, targets=decision.targets, decision=decision)


def _names(visit: Visit[Any], outcome: Wrote) -> Mapping[str, Any]:
    scoped: dict[str, Any] = {"failed": outcome.failure is not None, "visit": visit.visit_of_node}
    if not isinstance(outcome.output, Nothing) and visit.node.SCOPED is not None:
        scoped[visit.node.SCOPED] = outcome.output
    return ChainMap(scoped, outcome.writes, visit.state)  # type: ignore[arg-type]
