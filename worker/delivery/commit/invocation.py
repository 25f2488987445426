"""Commits an invocation of a map's branch: stages its result for the map to collect."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.schema import MapNode, ScriptNode
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.events import ItemCommitted
from sleipnir.scheduler.runs.failures import BUDGET_REFUSES, is_of_budget
from sleipnir.worker.delivery.commit.branch import counted_usage
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Failed, Nothing, Wrote


def finish(delivery: Delivery, outcome: Wrote | Failed) -> None:
    """Stage the invocation's result; the last one wakes the map."""
    visit = delivery.visit
    map_id, index = delivery.lease.visit.node, delivery.lease.visit.item
    map_node = visit.graph.nodes[map_id]
    assert isinstance(map_node, MapNode)
    assert index is not None
    result = _result(map_node, visit, outcome)
    failed = "error" in result
    if failed:
        result["item"] = visit.state[map_node.item_name]
    if cut := visit.services.exchanges.cut:
        result["cut"] = cut  # last, see scheduler/runs/map_items.py
    event = ItemCommitted(
        map_id,
        index,
        failure=result.get("error"),
        warnings=outcome.warnings if isinstance(outcome, Wrote) else (),
    )
    delivery.services.store.parking.stage_item(
        delivery.lease,
        encode(result),
        halt=failed and map_node.on_error == "fail",
        elapsed_s=delivery.visit.elapsed_s(),
        event=event,
        usage=outcome.usage,
        spent=outcome.usage + counted_usage(visit),
    )


def discard(delivery: Delivery) -> None:
    """End an invocation of a map that has failed for good, dropping its result."""
    delivery.services.store.parking.stage_item(
        delivery.lease,
        encode({"discarded": True, "value": None}),
        void=True,
        elapsed_s=delivery.visit.elapsed_s(),
        spent=counted_usage(delivery.visit),
    )


def _result(map_node: MapNode, visit: Visit[Any], outcome: Wrote | Failed) -> dict[str, Any]:
    """Return `{"value": …}`, or the error if there is none."""
    if isinstance(outcome, Failed):
        of_budget = is_of_budget(outcome.code, outcome.message)
        return {"error": outcome.message, "code": BUDGET_REFUSES if of_budget else "R011"}
    key = map_node.output_key
    if key in (visit.node.state_updates or {}):
        return {"value": outcome.writes[key]}
    if not isinstance(visit.node, ScriptNode):
        assert not isinstance(outcome.output, Nothing)
        return {"value": outcome.output}
    if key in outcome.writes:
        return {"value": outcome.writes[key]}
    return {"error": f"the branch wrote no '{key}'", "code": "R012"}
