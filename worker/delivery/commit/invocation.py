"""Commits a node's visit for an item of a map: the item goes on, or its result is staged."""

from __future__ import annotations

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.events import ItemCommitted, ItemWentOn
from sleipnir.scheduler.runs.failures import is_of_budget
from sleipnir.scheduler.runs.model import NO_USAGE, VisitCounts
from sleipnir.worker.delivery.commit import kept
from sleipnir.worker.delivery.commit.branch import kept_as_of, log_failure
from sleipnir.worker.delivery.commit.item import Ends, GoesOn, ItemVisit, taken_by, what_follows
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.delivery.handover import handover, taker_of
from sleipnir.worker.visit.outcome import Failed, Wrote


def finish(delivery: Delivery, outcome: Wrote | Failed) -> None:
    """Commit the visit; the end of the last item wakes the map."""
    item = ItemVisit.of(delivery)
    match what_follows(item, outcome):
        case GoesOn() as onward:
            _go_on(delivery, item, onward, outcome)
        case Ends() as end:
            if end.reason is not None and isinstance(outcome, Wrote):
                log_failure(delivery, f"{end.code}: {end.reason}")
            _stage(delivery, item, end, outcome)


def discard(delivery: Delivery) -> None:
    """End an item of a map that has failed for good, dropping its result."""
    visit, way = delivery.visit, ItemVisit.of(delivery).way
    way.end_visit(taken_by(visit, NO_USAGE), {})
    total = way.total
    handover.message = delivery.services.store.parking.stage_item(
        delivery.lease,
        encode({"discarded": True, "value": None}),
        void=True,
        elapsed_ms=total.ms,
        spent=total.usage,
        queues=handover.queues,
    )


def _go_on(delivery: Delivery, item: ItemVisit, onward: GoesOn, outcome: Wrote | Failed) -> None:
    warnings = outcome.warnings if isinstance(outcome, Wrote) else ()
    event = ItemWentOn(
        item.map_id, item.number, item.visit.node_id, onward.node, onward.failure, warnings
    )
    taker = taker_of(delivery, item.visit.visit_id.later(onward.node, onward.number))
    advanced = delivery.services.store.parking.advance_item(
        delivery.lease,
        (onward.node, onward.number),
        onward.writes,
        item.way,
        event=event if onward.failure or warnings else None,
        usage=outcome.usage,
        first=kept.taken(delivery),
        taker=taker,
    )
    handover.take(advanced, taker)


def _stage(delivery: Delivery, item: ItemVisit, end: Ends, outcome: Wrote | Failed) -> None:
    total = item.way.total
    event = ItemCommitted(item.map_id, item.number, failure=end.reason, warnings=end.warnings)
    handover.message = delivery.services.store.parking.stage_item(
        delivery.lease,
        _text(item, end, total.counts),
        halt=_stops_map(item, end),
        kept_as=kept_as_of(item.visit, outcome) if isinstance(outcome, Failed) else "failed",
        elapsed_ms=total.ms,
        event=event,
        usage=outcome.usage,
        spent=total.usage,
        way=item.way if item.way.has_moved else None,
        first=kept.taken(delivery),
        queues=handover.queues,
    )


def _stops_map(item: ItemVisit, end: Ends) -> bool:
    if end.reason is None:
        return False
    # No `on_error` tolerates a budget; further items would only spend what is left of it.
    return item.map.on_error == "fail" or is_of_budget(end.code, end.reason)


def _text(item: ItemVisit, end: Ends, counts: VisitCounts) -> str:
    """Return the result as the store keeps it, see scheduler/runs/map_items.py."""
    last = f',"counts":{encode(counts.to_json())}' if any(counts) else ""
    if end.reason is None:
        return f'{{"value":{end.value}{last}}}'
    reason, code = encode(end.reason), encode(end.code)
    return f'{{"error":{reason},"code":{code},"item":{item.value}{last}}}'
