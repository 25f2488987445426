"""Documents of single visits: items of maps, conversations with models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.errors import MissingReference, TextTooLong
from sleipnir.graphs.schema import Graph, MapNode
from sleipnir.graphs.template import evaluate_strict
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.runs.map_items import MapItem
from sleipnir.scheduler.runs.model import NO_USAGE, Checkpoint, Run, Usage
from sleipnir.scheduler.runs.reasons import cause_of
from sleipnir.scheduler.runs.spending import unattributed
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.grouping import OneFailure, grouped
from sleipnir.scheduler.views.inside_visits import call_began_at

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.documents import CallSumDocument
    from sleipnir.scheduler.views.types import run as types

ITEM_STATES = ("done", "failed", "open", "left_out")
_MOST_GROUPS = 20
_CODE = "R011"  # of a map whose items failed
# Reducers that keep what a map has written as it is.
_KEEPING = (None, "overwrite")


class NoSuchMap(SleipnirError):
    """The run has no items of a map with that name."""

    def __init__(self, run_id: str, node: str, step: int) -> None:
        super().__init__(f"run {run_id} has no items of a map '{node}' in step {step}")


@dataclass(frozen=True, slots=True)
class MapPlace:
    """A visit of a map."""

    node: str
    step: int


def items_document(
    client: Client,
    run: Run,
    place: MapPlace,
    *,
    state: str | None = None,
    cause: str | None = None,
    after: int | None = None,
    limit: int,
) -> types.ItemsDocument:
    """Return the items of a map's visit: counts by state, reasons of failures, a page of items.

    Args:
        state: only items in this state; `cause`: only those that failed for it.
        after: the index of the previous page's last item.

    Raises:
        NoSuchMap: the node has no visit there, or is not a map.
    """
    node = place.node
    try:
        items = client.queries.map_items(run, node, place.step)
    except KeyError:
        raise NoSuchMap(run.run_id, node, place.step) from None
    counts: Counter[str] = Counter(item.state for item in items)
    failures = (
        OneFailure(item.index, _CODE, node, item.reason)
        for item in items
        if item.reason is not None
    )
    wanted = (
        item
        for item in items
        if (state is None or item.state == state)
        and (cause is None or _failed_for(item, node, cause))
        and (after is None or item.index > after)
    )
    page = list(islice(wanted, limit + 1))
    return {
        "map": node,
        "step": place.step,
        "total": len(items),
        "counts": {each: counts[each] for each in ITEM_STATES},
        "failures": grouped(failures)[:_MOST_GROUPS],
        "states": "".join(item.state[0] for item in items),
        "items": [item.to_json() for item in page[:limit]],
        "next": page[limit - 1].index if len(page) > limit else None,
    }


def _failed_for(item: MapItem, node: str, cause: str) -> bool:
    return item.reason is not None and cause_of(_CODE, node, item.reason) == cause


@dataclass(frozen=True, slots=True)
class _MapVisit:
    """What a visit of a map read and wrote."""

    state: dict[str, Any] | None  # that it read; None if it is no longer stored separately
    checkpoint: Checkpoint | None  # None if it has not ended


def item_document(
    client: Client, run: Run, graph: Graph, place: MapPlace, index: int
) -> types.ShownItemDocument:
    """Return an item of a map's visit that has begun.

    Raises:
        IndexError: the map has no such item.
    """
    node = graph.nodes[place.node]
    assert isinstance(node, MapNode)
    items = client.queries.map_items(run, place.node, place.step)
    if index >= len(items):
        message = f"map '{place.node}' has no item {index}; the last one is {len(items) - 1}"
        raise IndexError(message)
    text = None
    if place.step == run.step:
        _, text = client.queries.open_map_result(run, place.node, index)
    visit = _visit(client, run, place)
    values = _values(node, visit, len(items))
    known: types.KnownItemDocument = {} if values is None else {"value": values[index]}
    if text is not None:
        result = json.loads(text)
        if "value" in result:  # failed ones have none
            known["result"] = result["value"]
    elif visit.checkpoint is not None and graph.reducers.get(node.collect_into) in _KEEPING:
        known |= _collected(node, visit.checkpoint, items, index)
    item = items[index]
    return {"index": index, "state": item.state, "item": item.to_json(), "known": known}


def item_values_document(
    client: Client, run: Run, graph: Graph, place: MapPlace, indexes: Sequence[int]
) -> types.ItemValuesDocument:
    """Return the values of items of a map's visit that has begun, in their order."""
    node = graph.nodes[place.node]
    assert isinstance(node, MapNode)
    total = len(client.queries.map_items(run, place.node, place.step))
    values = _values(node, _visit(client, run, place), total)
    return {"values": None if values is None else [values[index] for index in indexes]}


def _visit(client: Client, run: Run, place: MapPlace) -> _MapVisit:
    """Return what a map's visit read, and what it wrote; reads the history up to there."""
    state: dict[str, Any] = {}
    is_whole = True
    for checkpoint in client.queries.checkpoints(run.run_id):
        if checkpoint.step == place.step:
            return _MapVisit(state if is_whole else None, checkpoint)
        state.update(checkpoint.writes)
        is_whole = not checkpoint.folded
    return _MapVisit(state if is_whole else None, None)


def _values(node: MapNode, visit: _MapVisit, total: int) -> list[Any] | None:
    """Return the list that the map went over; None if it is no longer known."""
    if visit.state is None:
        return None
    try:
        values = evaluate_strict(node.over, visit.state)
    except (MissingReference, TextTooLong):
        return None
    return values if isinstance(values, list) and len(values) == total else None


def _collected(
    node: MapNode, checkpoint: Checkpoint, items: Sequence[MapItem], index: int
) -> types.KnownItemDocument:
    """Return an item's result from the list that the map has written."""
    written = {"done", "failed"} if node.on_error == "collect" else {"done"}
    results = checkpoint.writes.get(node.collect_into)
    if items[index].state not in written or not isinstance(results, list):
        return {}
    if len(results) != sum(item.state in written for item in items):
        return {}
    return {"result": results[sum(item.state in written for item in items[:index])]}


def model_document(
    client: Client,
    run: Run,
    *,
    node: str | None = None,
    item: int | None = None,
    step: int | None = None,
    call: int | None = None,
    failed: bool = False,
    limit: int,
) -> types.ModelCallsDocument:
    """Return the model calls of the newest visits, and what was spent by node and model.

    `sums` are not bounded by what is stored of the calls. They are of the run or of a node of it;
    with `item`, of that item alone, which are not told apart by model. What is null is not known.

    Args:
        node: only visits of this node.
        item: only visits for this item of a map.
        step: only visits in this super-step.
        call: only this call of each visit, counted from 1.
        failed: only visits that failed.
    """
    entries = client.queries.transcripts(run.run_id)
    chosen = [
        entry
        for entry in entries
        if (node is None or entry["node"] == node)
        and (item is None or entry["index"] == item)
        and (step is None or entry["step"] == step)
        and (entry["failed"] or not failed)
    ]
    return {
        "visits": [_visit_document(entry, call) for entry in chosen[-limit:]],
        "left_out": max(0, len(chosen) - limit),
        "stored_calls": sum(len(entry["exchanges"]) for entry in chosen),
        "nodes": sorted({entry["node"] for entry in entries} | {name for name, _ in run.spent}),
        "sums_of": "run" if item is None else "item",
        "sums": list(_item_sums(client, run, node, item) if item is not None else _sums(run, node)),
    }


def _sums(run: Run, node: str | None) -> Iterator[types.ModelSumDocument]:
    """Yield what a run has spent, over all its tries and with its child runs."""
    for (name, model), spent in run.spent.items():
        if node in (None, name):
            yield {"node": name or None, "model": model or None, **spent.to_json()}
    rest = unattributed(run)
    if rest and node is None:
        yield {"node": None, "model": None, **_only_used(rest)}


def _only_used(usage: Usage) -> CallSumDocument:
    return {"calls": None, "seconds": None, "usage": usage.to_json()}


def _item_sums(
    client: Client, run: Run, node: str | None, item: int
) -> Iterator[types.ModelSumDocument]:
    """Yield what an item of each map has spent in the map's last visit."""
    for map_node, begun in client.queries.maps(run).items():
        branch = begun.branch
        items = client.queries.map_items(run, map_node)
        found = items[item] if item < len(items) else None
        if found is None or not found.usage or node not in (None, map_node, branch, *found.nodes):
            continue
        # What each node of a chain has spent is known of all items together.
        name = map_node if len(set(found.nodes)) > 1 else branch
        yield {"node": name, "model": None, **_only_used(found.usage)}


def _visit_document(entry: Mapping[str, Any], call: int | None) -> dict[str, Any]:
    usage = sum((Usage(*each["usage"]) for each in entry["exchanges"]), NO_USAGE)
    exchanges = [
        {
            **{name: value for name, value in each.items() if name != "ago_s"},
            "number": number,
            "began_at": call_began_at(entry, each),
            "usage": Usage(*each["usage"]).to_json(),
        }
        for number, each in enumerate(entry["exchanges"], 1)
        if call in (None, number)
    ]
    return {
        **entry,
        "at": to_rfc3339(entry["at"]),
        "usage": usage.to_json(),
        "exchanges": exchanges,
    }
