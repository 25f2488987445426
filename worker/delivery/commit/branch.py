"""A visit's part of its step, as the store keeps it: writes as JSON texts, time and cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.normal_agent import TurnNode, is_normal
from sleipnir.graphs.schema import AgentNode, LlmNode, MapNode
from sleipnir.graphs.state import Snapshot, encode, same_json
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.runs.failures import (
    BUDGET_REFUSES,
    NO_FAILURES,
    StepFailures,
    of_items,
    of_node,
)
from sleipnir.scheduler.runs.item_ways import NodeSums
from sleipnir.scheduler.runs.map_items import chain_sums, items_of, packed
from sleipnir.scheduler.runs.model import Failure, Usage, VisitCounts
from sleipnir.scheduler.runs.plan import Branch, KeptAs
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Ended, Failed, Nothing, Wrote
from sleipnir.worker.visit.run_log import log_entry

# Writes of this many times the limit of a state cannot fit, whatever values they replace.
_FAR_TOO_MUCH = 4


class _ValueTooLarge(Exception):
    """A single value, or all writes of the visit together, exceed the limit."""


def branch_of(delivery: Delivery, outcome: Wrote | Ended | Failed) -> Branch:
    """Return the outcome as the store keeps it; a failure if its writes are over the limit."""
    # Users of a normal agent see no nodes, so its failures name none.
    blamed = None if is_normal(delivery.visit.graph) else delivery.visit.node_id
    timing = _timing(delivery, usage_of(outcome))
    if isinstance(outcome, Failed):
        failure = Failure(outcome.code, outcome.message, blamed, outcome.caused_by)
        kept_as = kept_as_of(delivery.visit, outcome)
        return Branch({}, failure=failure, kept_as=kept_as, timing=timing)
    try:
        writes = _texts(delivery.visit, outcome, delivery.services.settings)
    except _ValueTooLarge as error:
        log_failure(delivery, f"R021: {error}")
        return Branch({}, failure=Failure("R021", str(error), blamed), timing=timing)
    if outcome.warnings:
        timing["warnings"] = list(outcome.warnings)
    if isinstance(outcome, Ended):
        value = "" if isinstance(outcome.value, Nothing) else encode(outcome.value)
        return Branch(writes, ended=True, output=outcome.output, value=value, timing=timing)
    own = _failures(delivery.visit, outcome)
    if outcome.failure is not None:
        timing["failure"] = outcome.failure
    if outcome.decision is not None:
        timing["route"] = {
            "index": outcome.decision.index,
            "label": outcome.decision.label,
            "visit": delivery.visit.number,
            "to": outcome.decision.targets,
        }
    if own.handled:
        timing["handled"] = True
    elif own:
        timing["failed"] = own.failed
    failures = own + outcome.inside
    targets = delivery.visit.node.targets if outcome.targets is None else outcome.targets
    return Branch(writes, targets, tolerated=outcome.failure, failures=failures, timing=timing)


def kept_as_of(visit: Visit[Any], failed: Failed) -> KeptAs:
    """Return what a retry does with a failed visit.

    An invalid answer is asked for again. Where conditions chose no way on, or a budget did not
    allow a call, what models have replied before is paid for, and counts.
    """
    if failed.code == "R019":
        return "misanswered"
    if failed.code == BUDGET_REFUSES and isinstance(visit.node, LlmNode | TurnNode | AgentNode):
        return "broken"
    return "broken" if failed.undecided and isinstance(visit.node, LlmNode) else "failed"


def _failures(visit: Visit[Any], outcome: Wrote) -> StepFailures:
    """Return the failures of a visit that is committed nevertheless."""
    if outcome.failed_count:
        return of_items(visit.node_id, visit.step, outcome.failed_items, outcome.failed_count)
    if outcome.failure is None:
        return NO_FAILURES
    code = outcome.failure_code or visit.node.FAILURE_CODE
    handled = visit.node.fallback is not None
    return of_node(visit.node_id, visit.step, code, outcome.failure, handled=handled)


def log_failure(delivery: Delivery, text: str) -> None:
    """Log why a visit that did its work has failed nevertheless."""
    visit = delivery.visit
    place = visit.step, visit.node_id, visit.item_index
    entry = log_entry(place, "failure", text, run_try=delivery.begun.run_try, attempt=visit.attempt)
    delivery.services.store.runs.append_logs(visit.run_id, [entry])


def usage_of(outcome: Wrote | Ended | Failed) -> Usage:
    """Return the usage that the run does not count yet."""
    return outcome.usage


def counted_usage(visit: Visit[Any]) -> Usage:
    """Return the usage that the run counts already: recorded turns, and a child's."""
    used, child = visit.services.conversation.recorded_usage, visit.resumed_with
    if child and "usage" in child:
        used += Usage.from_text(child["usage"])
    return used


def counts_of(visit: Visit[Any]) -> VisitCounts:
    """Return what is counted of a visit that ends now."""
    return visit.services.exchanges.counts._replace(retried=visit.attempt - 1)


def _texts(visit: Visit[Any], outcome: Wrote | Ended, settings: Settings) -> dict[str, str]:
    """Return the writes as JSON texts, without those that leave their key unchanged."""
    texts = {}
    total = 0
    for key, value in outcome.writes.items():
        text = encode(value)
        size = len(text.encode())
        if size > settings.value_limit_bytes:
            raise _ValueTooLarge(
                f"node '{visit.node_id}' wrote {size} bytes to '{key}'; the limit of a "
                f"value is {settings.value_limit_bytes} (value_limit_bytes)"
            )
        # `error` texts of failed scripts are appended, so a repeated one must be written as well.
        is_error = isinstance(outcome, Wrote) and outcome.failure and key == "error"
        if key in visit.graph.reducers or is_error or not _unchanged(visit.state, key, text):
            texts[key] = text
            total += size
        if total > _FAR_TOO_MUCH * settings.state_limit_bytes:
            # Stop before encoding the rest: one large value may be shared by many keys.
            raise _ValueTooLarge(
                f"node '{visit.node_id}' wrote more than a state may hold: "
                f"{settings.state_limit_bytes} bytes (state_limit_bytes)"
            )
    return texts


def _unchanged(state: Snapshot, key: str, text: str) -> bool:
    """Return whether writing `text` would leave the key's JSON value and type as they are."""
    old = state.text(key)
    if old is None or old == text:
        return old is not None
    # Equal values can differ in spelling only for objects, arrays and strings with escapes.
    return (old[0] == text[0] == "{" or old[0] == text[0] == "[" or "\\" in old) and same_json(
        state[key], Snapshot({key: text})[key]
    )


def _timing(delivery: Delivery, usage: Usage) -> dict[str, Any]:
    visit = delivery.visit
    timing: dict[str, Any] = {"ms": round(visit.elapsed_s() * 1000)}
    if delivery.begun.wait_ms:
        timing["wait"] = delivery.begun.wait_ms
    if delivery.begun.parked_ms:
        timing["parked"] = delivery.begun.parked_ms
    usage += counted_usage(visit)
    if usage:
        timing["usage"] = usage.to_list()
    timing |= counts_of(visit).to_json()
    if isinstance(visit.node, MapNode) and visit.resumed_with is not None:
        timing["branch"] = _branch_timing(visit.node, visit.resumed_with)
    return timing


def _branch_timing(node: MapNode, fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the totals of a map's items, for the rows of its chain's nodes in summaries."""
    sums = chain_sums(fields)
    first = sums.pop(node.branch, NodeSums())
    timing = {
        **_sums_timing(node.branch, first),
        "done": int(fields["done"]),
        "items": packed(items_of(fields)),
    }
    if sums:
        timing["then"] = [_sums_timing(each, sums[each]) for each in sums]
    return timing


def _sums_timing(node_id: str, sums: NodeSums) -> dict[str, Any]:
    timing = {
        "id": node_id,
        "visits": sums.visits,
        "ms": sums.ms,
        "max_ms": sums.max_ms,
        "usage": sums.usage.to_list(),
        **sums.counts.to_json(),
    }
    return timing | {"failed": sums.failed} if sums.failed else timing
