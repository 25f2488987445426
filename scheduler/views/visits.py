"""Documents of single visits: items of maps, conversations with models."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.errors import MissingReference, TextTooLong
from sleipnir.graphs.schema import Graph, MapNode
from sleipnir.graphs.template import evaluate_strict
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.runs.map_items import MapItem
from sleipnir.scheduler.runs.model import NO_USAGE, Checkpoint, Run, Usage
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.grouping import OneFailure, grouped

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

ITEM_STATES = ("done", "failed", "open", "left_out")
_MOST_GROUPS = 20
# Reducers that keep what a map has written as it is.
_KEEPING = (None, "overwrite")


class NoSuchMap(SleipnirError):
    """The run has no items of a map with that name."""

    def __init__(self, run_id: str, node: str) -> None:
        super().__init__(f"run {run_id} has no items of a map '{node}'")


def items_document(
    client: Client,
    run: Run,
    node: str,
    *,
    state: str | None = None,
    after: int | None = None,
    limit: int,
) -> Document:
    """Return a map's items: counts by state, reasons of failures, and a page of items.

    Args:
        state: only items in this state.
        after: the index of the previous page's last item.

    Raises:
        NoSuchMap: the node has not begun, or is not a map.
    """
    try:
        items = client.queries.map_items(run, node)
    except KeyError:
        raise NoSuchMap(run.run_id, node) from None
    counts: Counter[str] = Counter(item.state for item in items)
    failures = (
        OneFailure(item.index, "R011", node, item.reason)
        for item in items
        if item.reason is not None
    )
    wanted = (
        item
        for item in items
        if (state is None or item.state == state) and (after is None or item.index > after)
    )
    page = list(islice(wanted, limit + 1))
    return {
        "map": node,
        "total": len(items),
        "counts": {each: counts[each] for each in ITEM_STATES},
        "failures": [asdict(group) for group in grouped(failures)[:_MOST_GROUPS]],
        "states": "".join(item.state[0] for item in items),
        "items": [item.to_json() for item in page[:limit]],
        "next": page[limit - 1].index if len(page) > limit else None,
    }


@dataclass(frozen=True, slots=True)
class _MapVisit:
    """The visit of a map that items are shown of."""

    state: dict[str, Any] | None  # that it read; None if it is no longer stored separately
    checkpoint: Checkpoint | None  # None if it has not ended


def item_document(client: Client, run: Run, graph: Graph, node_id: str, index: int) -> Document:
    """Return an item of a map that has begun; `known` has its `value` and `result` as far as known.

    Raises:
        IndexError: the map has no such item.
    """
    node = graph.nodes[node_id]
    assert isinstance(node, MapNode)
    items = client.queries.map_items(run, node_id)
    if index >= len(items):
        raise IndexError(f"map '{node_id}' has no item {index}; the last one is {len(items) - 1}")
    is_open, text = client.queries.open_map_result(run, node_id, index)
    visit = _visit(client, run, node_id, is_open=is_open)
    values = _values(node, visit, len(items))
    known = {} if values is None else {"value": values[index]}
    if text is not None:
        known |= _result_in(json.loads(text))
    elif visit.checkpoint is not None and graph.reducers.get(node.collect_into) in _KEEPING:
        known |= _collected(node, visit.checkpoint, items, index)
    return {"index": index, "state": items[index].state, "known": known}


def _visit(client: Client, run: Run, node_id: str, *, is_open: bool) -> _MapVisit:
    """Return the map's open visit, or else its last one; reads the history once."""
    state: dict[str, Any] = {}
    is_whole = True
    last = _MapVisit(None, None)
    for checkpoint in client.queries.checkpoints(run.run_id):
        if is_open and checkpoint.step >= run.step:
            break
        if "branch" in checkpoint.nodes.get(node_id, {}):
            last = _MapVisit(dict(state) if is_whole else None, checkpoint)
        state.update(checkpoint.writes)
        is_whole = not checkpoint.folded
    return _MapVisit(state if is_whole else None, None) if is_open else last


def _values(node: MapNode, visit: _MapVisit, total: int) -> list[Any] | None:
    """Return the list that the map went over; None if it is no longer known."""
    if visit.state is None:
        return None
    try:
        values = evaluate_strict(node.over, visit.state)
    except (MissingReference, TextTooLong):
        return None
    return values if isinstance(values, list) and len(values) == total else None


def _result_in(result: Document) -> Document:
    """Return the result that an open map keeps of an item; failed ones have none."""
    return {"result": result["value"]} if "value" in result else {}


def _collected(
    node: MapNode, checkpoint: Checkpoint, items: Sequence[MapItem], index: int
) -> Document:
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
    limit: int,
) -> Document:
    """Return the model calls of the newest visits, and the usage of each node.

    Args:
        node: only visits of this node.
        item: only visits for this item of a map.
        step: only visits in this super-step.
        call: only this call of each visit, counted from 1.
    """
    entries = client.queries.transcripts(run.run_id)
    chosen = [
        entry
        for entry in entries
        if (node is None or entry["node"] == node)
        and (item is None or entry["index"] == item)
        and (step is None or entry["step"] == step)
    ]
    sums: dict[tuple[str, str], _Spent] = {}
    for entry in entries:
        for exchange in entry["exchanges"]:
            key = entry["node"], exchange["model"]
            sums[key] = sums.get(key, _NOTHING).plus(exchange)
    return {
        "visits": [_visit_document(entry, call) for entry in chosen[-limit:]],
        "left_out": max(0, len(chosen) - limit),
        "nodes": sorted({entry["node"] for entry in entries}),
        "sums": [
            {"node": node, "model": model, **spent.to_json()}
            for (node, model), spent in sorted(sums.items())
        ],
    }


class _Spent:
    """The totals of one model's calls."""

    def __init__(self, calls: int, seconds: float, usage: Usage) -> None:
        self.calls = calls
        self.seconds = seconds
        self.usage = usage

    def plus(self, exchange: Mapping[str, Any]) -> _Spent:
        usage = self.usage + Usage(*exchange["usage"])
        return _Spent(self.calls + 1, self.seconds + (exchange["seconds"] or 0.0), usage)

    def to_json(self) -> Document:
        return {"calls": self.calls, "seconds": self.seconds, "usage": self.usage.to_json()}


_NOTHING = _Spent(0, 0.0, NO_USAGE)


def _visit_document(entry: Mapping[str, Any], call: int | None) -> Document:
    usage = sum((Usage(*each["usage"]) for each in entry["exchanges"]), NO_USAGE)
    exchanges = [
        {**each, "usage": Usage(*each["usage"]).to_json()}
        for number, each in enumerate(entry["exchanges"], 1)
        if call in (None, number)
    ]
    return {
        **entry,
        "at": to_rfc3339(entry["at"]),
        "usage": usage.to_json(),
        "exchanges": exchanges,
    }
