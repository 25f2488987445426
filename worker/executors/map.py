"""The `map` node: fans out over a list, and collects the results of its branch."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.finding import cut
from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.reducers import json_type
from sleipnir.graphs.schema import BuildNode, MapNode
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.failures import KEPT_FAILURES, is_of_budget
from sleipnir.scheduler.runs.item_ways import Way
from sleipnir.scheduler.runs.map_items import tolerated_inside
from sleipnir.worker.executors.updates import require_value
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Mapped, Outcome, Wrote

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import NodeFailureDocument

_DIGITS = re.compile(r"[0-9]{1,18}")  # of a window; more items than that cannot exist
_MOST_SHOWN = 100  # characters of a wrong one


def run_map(visit: Visit[MapNode]) -> Outcome:
    """Fan out; once all invocations have ended, collect their results in item order.

    Raises:
        NodeFailed: R001 or R010 for `over`, R001 or R026 for `max_concurrency`, R003 for the
            branch, R011 or R012 for the failed item with the lowest index, R025 or R015 for one
            that a budget stopped, R021 for too many items.
    """
    if visit.resumed_with is not None:
        return _collect(visit, visit.resumed_with)
    node = visit.node
    branch = visit.graph.nodes.get(node.branch)
    # Validation checks this too, but can be switched off.
    if branch is None or not branch.MAY_BE_BRANCH:
        raise NodeFailed("R003", f"map '{visit.node_id}': no usable branch '{node.branch}'")
    items, window = _items(visit), _window(visit)
    if not items:
        return Wrote({node.collect_into: []})
    return Mapped(items, window)


def _window(visit: Visit[MapNode]) -> int:
    given = visit.node.max_concurrency
    if not isinstance(given, str):
        return given or visit.graph.settings.max_concurrency
    value = require_value(given, "max_concurrency", visit)
    is_number = type(value) is int or (isinstance(value, str) and _DIGITS.fullmatch(value.strip()))
    if not is_number or int(value) < 1:
        shown = cut(encode(value), _MOST_SHOWN)
        raise NodeFailed(
            "R026",
            f"map '{visit.node_id}': max_concurrency must be a whole number of at least 1, "
            f"got {shown} ({json_type(value)})",
        )
    return int(value)


def _items(visit: Visit[MapNode]) -> list[Any]:
    items = require_value(visit.node.over, "over", visit)
    if not isinstance(items, list):
        raise NodeFailed(
            "R010", f"map '{visit.node_id}': over must be a list, got {json_type(items)}"
        )
    if len(items) > visit.limits.map_items:
        raise NodeFailed(
            "R021",
            f"map '{visit.node_id}': {len(items)} items, the limit is {visit.limits.map_items} "
            "(map_items_limit)",
        )
    return items


def _collect(visit: Visit[MapNode], fields: dict[str, str]) -> Wrote:
    """Collect the results, as the store kept them, in item order."""
    node = visit.node
    results: list[Any] = []
    failed: list[tuple[int, str]] = []
    count = 0
    for index in range(int(fields["total"])):
        text = fields.get(f"result:{index}")
        if text is None:  # never started, because a lower index had failed
            continue
        result = json.loads(text)
        if "error" not in result:
            results.append(result["value"])
            continue
        count += 1
        if len(failed) < KEPT_FAILURES:
            failed.append((index, result["error"]))
        # What a budget does not allow is no opinion of the map.
        if node.on_error == "fail" or is_of_budget(result["code"], result["error"]):
            message, before = _first_failure(visit, index, result["error"]), _before(visit, index)
            raise NodeFailed(result["code"], message, caused_by=before)
        if node.on_error == "collect":
            results.append({"error": result["error"], "item": result["item"]})
    warnings = (_failed_items(visit.node_id, count),) if count else ()
    return Wrote(
        {node.collect_into: results},
        failed_items=tuple(failed),
        failed_count=count,
        inside=tolerated_inside(fields, visit.step),
        warnings=warnings,
    )


def _first_failure(visit: Visit[MapNode], index: int, error: str) -> str:
    if isinstance(visit.graph.nodes[visit.node.branch], BuildNode):
        return error  # whoever builds a knowledge base knows of no map
    return f"map '{visit.node_id}' item [{index}] failed: {error}"


def _before(visit: Visit[MapNode], index: int) -> list[NodeFailureDocument]:
    """Return the failures after which an item went on, before it failed."""
    way = (visit.resumed_with or {}).get(f"way:{index}")
    found = Way.from_json(way).failures_at(visit.step, index).kept if way else ()
    return [each.to_json() for each in found]


def _failed_items(node_id: str, count: int) -> str:
    return f"map '{node_id}': {count} {'item' if count == 1 else 'items'} failed"
