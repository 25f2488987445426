"""Decides what follows from a node's visit for an item of a map: its next node, or its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sleipnir.graphs.schema import MapNode, ScriptNode
from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.failures import is_of_budget
from sleipnir.scheduler.runs.item_ways import NodeSums, Tolerated, Way
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.delivery.commit.branch import counted_usage, counts_of
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Failed, Nothing, Wrote


# Tuples, as some are made for each item: frozen dataclasses take more than twice as long to make.
class ItemVisit(NamedTuple):
    """An item of a map at one of its nodes."""

    map_id: str
    map: MapNode
    number: int  # its index
    chain: tuple[str, ...]
    way: Way  # to this node, this visit included
    value: str  # the item itself, as JSON text
    own: Mapping[str, str]  # what earlier nodes have written, of the keys that this one needs
    visit: Visit[Any]

    @classmethod
    def of(cls, delivery: Delivery) -> ItemVisit:
        visit, begun = delivery.visit, delivery.begun
        map_id, index = visit.visit_id.node, visit.item_index
        node = visit.graph.nodes[map_id]
        assert isinstance(node, MapNode)
        assert index is not None
        way = Way.from_json(begun.way) if begun.way else Way.begin(visit.node_id)
        chain, value = visit.agent.chain_of(map_id), begun.item or "null"
        return cls(map_id, node, index, chain, way, value, begun.own, visit)


class GoesOn(NamedTuple):
    """The item goes on at another node of the chain, or once more at the same one."""

    node: str
    number: int  # which visit of that node it will be
    writes: Mapping[str, str]  # key → JSON text
    failure: str | None  # tolerated, of the visit


class Ends(NamedTuple):
    """The item has ended, with a value or with a reason."""

    value: str = ""  # JSON text
    reason: str | None = None
    code: str = ""  # with a reason
    warnings: tuple[str, ...] = ()


class _ItemFailed(Exception):
    """The item has failed with a reason and a code."""

    def __init__(self, reason: str, code: str = "R011") -> None:
        super().__init__(reason)
        self.reason, self.code = reason, code


def what_follows(item: ItemVisit, outcome: Wrote | Failed) -> GoesOn | Ends:
    """Return what the end of the visit means for the item, and note it in the item's way."""
    took = taken_by(item.visit, outcome.usage)
    if isinstance(outcome, Failed):
        item.way.end_visit(took, {})
        code = outcome.code if is_of_budget(outcome.code, outcome.message) else "R011"
        return _failed(item, outcome.message, code)
    texts = {key: encode(value) for key, value in outcome.writes.items()}
    item.way.end_visit(
        took, {key: len(key.encode()) + len(text.encode()) for key, text in texts.items()}
    )
    try:
        _check_size(item)
        target, warnings = _target(item, outcome)
        if target is None:
            return Ends(_value(item, outcome, texts), warnings=warnings)
        number = _next_number(item, target)
    except _ItemFailed as failure:
        return _failed(item, failure.reason, failure.code)
    if outcome.failure is not None:
        item.way.tolerate(_tolerated(item.visit, outcome, outcome.failure))
    item.way.go_to(target)
    return GoesOn(target, number, texts, outcome.failure)


def taken_by(visit: Visit[Any], usage: Usage) -> NodeSums:
    """Return what a visit took, of which `usage` is not counted yet."""
    ms = round(visit.elapsed_s() * 1000)
    return NodeSums(0, ms, ms, 0, counts_of(visit), usage + counted_usage(visit))


def _failed(item: ItemVisit, reason: str, code: str) -> Ends:
    if len(item.chain) > 1:
        reason = f"at '{item.visit.node_id}': {reason}"
    return Ends(reason=reason, code=code)


def _tolerated(visit: Visit[Any], outcome: Wrote, reason: str) -> Tolerated:
    code = outcome.failure_code or visit.node.FAILURE_CODE
    return Tolerated(visit.node_id, code, reason, visit.node.fallback is not None)


def _check_size(item: ItemVisit) -> None:
    size, limit = sum(item.way.wrote.values()), item.visit.limits.value_bytes
    if size > limit:
        raise _ItemFailed(
            f"the item has written {size} bytes; the limit of a value is {limit} "
            "(value_limit_bytes)"
        )


def _target(item: ItemVisit, outcome: Wrote) -> tuple[str | None, tuple[str, ...]]:
    """Return the next node, None at the end; and the visit's warnings."""
    visit, chain = item.visit, item.chain
    targets = visit.node.targets if outcome.targets is None else outcome.targets
    if not targets:
        return None, outcome.warnings
    is_next = outcome.targets is None or outcome.decision is not None
    field = "next" if is_next else "fallback" if outcome.failure else "_next"
    if len(targets) > 1:
        raise _ItemFailed(f"'{field}' names {len(targets)} nodes; an item goes one way")
    (target,) = targets
    if target in chain:
        return target, outcome.warnings
    if chain == (visit.node_id,) and isinstance(visit.node, ScriptNode) and field == "_next":
        ignored = f"'{visit.node_id}' is a map's branch; its _next is ignored"
        return None, (*outcome.warnings, ignored)
    raise _ItemFailed(f"'{field}' names '{target}', which is not in the branch of '{item.map_id}'")


def _next_number(item: ItemVisit, target: str) -> int:
    """Return which visit of a node comes next."""
    before, most = item.way.sums.get(target), item.visit.graph.settings.max_loop_iterations
    visits = before.visits + 1 if before else 1
    if visits > most:
        raise _ItemFailed(f"Node '{target}' visited {visits} times (max_loop_iterations={most})")
    return visits


def _value(item: ItemVisit, outcome: Wrote, texts: Mapping[str, str]) -> str:
    """Return what was last written under `output_key`, else the output of the last node."""
    key = item.map.output_key
    if key in texts:
        return texts[key]
    if key in item.way.wrote:
        return item.own[key]
    if isinstance(outcome.output, Nothing):
        raise _ItemFailed(f"the branch wrote no '{key}'", "R012")
    return encode(outcome.output)
