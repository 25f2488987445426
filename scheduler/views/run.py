"""Documents of one run and its contents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.schema import Graph
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.events import NarrationEntry, to_json
from sleipnir.scheduler.runs.history import Change, changes_of, items_done
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import Checkpoint, Run, RunRow, Status
from sleipnir.scheduler.runs.narration import render
from sleipnir.scheduler.runs.spending import sum_of
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries.lists import ChildRows
from sleipnir.scheduler.views.documents import (
    directory_of,
    elapsed_s,
    error_document,
    failure_documents,
    left_out,
    question_document,
    row_document,
)
from sleipnir.scheduler.views.runs import NO_CHILDREN, WITH_REASON, read_children
from sleipnir.scheduler.views.why import why_document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import run as types

# The most entries of a list per request.
MOST_ENTRIES = 1_000
# The most values of a state per request.
MOST_VALUES = 300
_PROMPT_KEY = "initial_prompt"
_MOST_OF_PROMPT = 200  # characters
# The most child runs shown per request.
_MOST_CHILDREN = 200
# Kinds of events that narrations begin with.
_BEGINNINGS = ("submitted", "forked")


def headline_document(client: Client, run: Run) -> types.HeadlineDocument:
    """Return the headline of a run."""
    queries = client.queries
    now_ms, failures = queries.now_ms(), queries.failures(run)
    questions = client.open_questions(run.run_id) if not run.is_final else []
    prompt = queries.state_values(run.run_id, [_PROMPT_KEY])[_PROMPT_KEY]
    return {
        "run_id": run.run_id,
        "agent": run.agent,
        "directory": directory_of(run.agent, run.context.agent_path),
        "digest": run.digest,
        "status": str(run.status),
        "is_final": run.is_final,
        "converses": run.context.converses,
        "prompt": prompt[:_MOST_OF_PROMPT] if isinstance(prompt, str) else None,
        "node": None if run.is_final else ", ".join(run.frontier),
        "why": why_document(client, run),
        "error": error_document(run, failures),
        "failures": failure_documents(failures),
        "failed_nodes": run.failed_nodes,
        "output": run.output,
        "questions": [question_document(question) for question in questions],
        "created_at": to_rfc3339(run.created_at),
        "started_at": _instant(run.started_at),
        "ended_at": _instant(run.ended_at),
        "deadline": _instant(run.deadline),
        "elapsed_s": elapsed_s(run, now_ms),
        "steps": queries.steps(run.run_id),
        "try": run.tries,
        "usage": run.usage.to_json(),
        "machine": run.machine,
        "parent": None if run.parent is None else run.parent.partition(" ")[0],
        "root": run.context.root or run.run_id,
        "batch": run.batch,
        "item": run.item,
        "labels": dict(run.labels),
        "user": run.context.user or None,
        "forked_from": None if run.forked_from is None else run.forked_from[0],
    }


def history_document(client: Client, run: Run, *, start: int = 0) -> types.HistoryDocument:
    """Return the super-steps of a run from `start` on, each with its nodes and written keys."""
    steps: list[types.StepDocument] = []
    for checkpoint in client.queries.checkpoints(run.run_id, start):
        if len(steps) == MOST_ENTRIES:
            return {"steps": steps, "next": str(checkpoint.step)}
        steps.append(_step_document(checkpoint))
    return {"steps": steps, "next": None}


@dataclass(frozen=True, slots=True)
class StateBounds:
    """How much of a state is given per request."""

    values: int
    each_bytes: int  # larger values are left out
    all_bytes: int


def state_document(
    client: Client,
    run: Run,
    step: int | None = None,
    *,
    only: str | None = None,
    text: str | None = None,
    graph: Graph | None = None,
    start: int = 0,
    bounds: StateBounds | None = None,
) -> types.StateDocument:
    """Return the state after a step, or as last committed: each key's value and writers.

    Args:
        only: this key alone; `text`: only keys whose names contain it, in any case.
        graph: tells which of a step's nodes wrote a key; without it, all of them are given.
        start: the number of the first key, in the order of names.
        bounds: None: everything is given.

    Raises:
        IndexError: the step was not committed, or was folded into a later one.
    """
    last = client.queries.steps(run.run_id)
    wanted = last if step is None else step
    values: dict[str, Any] = {}
    written: dict[str, tuple[int, list[str]]] = {}
    change: dict[str, Change] = {}
    for checkpoint, changes in changes_of(client.queries.checkpoints(run.run_id)):
        if checkpoint.step > wanted:
            break
        values.update(checkpoint.writes)
        written.update(
            (key, (checkpoint.step, _writers(checkpoint, key, graph))) for key in checkpoint.writes
        )
        change = changes if checkpoint.step == wanted else {}
        if checkpoint.step == wanted and checkpoint.folded:
            raise IndexError(f"step {wanted} is no longer stored separately (history_limit_bytes)")
    if wanted > last:
        raise IndexError(f"step {wanted} does not exist; the last one is {last}")
    if only is not None and only not in values:
        raise IndexError(f"the state had no key '{only}' after step {wanted}")
    names = [key for key in sorted(values) if text is None or text.casefold() in key.casefold()]
    total = len(names)
    names = names[start:] if only is None else [only]
    found = (_value_document(key, values[key], *written[key], change) for key in names)
    shown = list(found if bounds is None else _within(found, bounds))
    more = start + len(shown) if len(shown) < len(names) else None
    return {"step": wanted, "steps": last, "total": total, "keys": shown, "next": more}


def _within(
    values: Iterable[types.StateValueDocument], bounds: StateBounds
) -> Iterator[types.StateValueDocument]:
    """Yield values while they fit; those that are too large on their own, without themselves."""
    left = bounds.all_bytes
    for value in islice(values, bounds.values):
        sizes = value["bytes"], _size(value["before"])
        if max(sizes) > bounds.each_bytes:
            yield {**value, "value": None, "before": None, "left_out": True}
            continue
        left -= sum(sizes)
        if left < 0:
            return
        yield value


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _value_document(
    key: str, value: Any, step: int, nodes: list[str], change: Mapping[str, Change]
) -> types.StateValueDocument:
    return {
        "key": key,
        "type": type_name(value),
        "bytes": _size(value),
        "value": value,
        "left_out": False,
        "step": step,
        "nodes": nodes,
        "changed": key in change,
        "before": change.get(key, {}).get("before"),
        "is_new": key in change and "before" not in change[key],
    }


def _writers(checkpoint: Checkpoint, key: str, graph: Graph | None) -> list[str]:
    """Return the nodes of a step that wrote a key: nodes in parallel declare what they write."""
    nodes = list(checkpoint.nodes)
    if graph is None or len(nodes) < 2:
        return nodes
    known = graph.nodes
    return [node for node in nodes if node in known and key in known[node].written_keys()]


def events_document(client: Client, run: Run, after: str = "0") -> types.EventsDocument:
    """Return the events of a run after an event id, oldest first.

    Raises:
        BadCursor: `after` is not the id of an event.
    """
    news = client.queries.news(run.run_id, after, 1, is_open=True)
    entries = news.entries[:MOST_ENTRIES]
    more = len(news.entries) > MOST_ENTRIES
    return {
        "events": [entry_document(entry) for entry in entries],
        "next": entries[-1].event_id if more else None,
    }


def latest_events_document(
    client: Client, run: Run, *, before: str | None = None, kind: str | None = None
) -> types.LatestEventsDocument:
    """Return the last events of a run before an event id, oldest first.

    Args:
        kind: only events of this kind, of those that were read.

    Raises:
        BadCursor: `before` is not the id of an event.
    """
    found = client.queries.latest(run.run_id, before, MOST_ENTRIES + 1)
    entries = found[-MOST_ENTRIES:]
    is_first = len(found) == len(entries)
    return {
        "events": [entry_document(each) for each in entries if kind in (None, each.event.kind)],
        "previous": None if is_first else entries[0].event_id,
        "are_all": not is_first or not entries or entries[0].event.kind in _BEGINNINGS,
        "kinds": sorted({each.event.kind for each in entries}),
    }


def entry_document(entry: NarrationEntry) -> dict[str, Any]:
    """Return an event with its rendered lines."""
    return {
        "id": entry.event_id,
        "at": to_rfc3339(entry.at),
        **json.loads(to_json(entry.event)),
        "lines": render(entry.event),
    }


def logs_document(
    client: Client,
    run: Run,
    *,
    node: str | None = None,
    item: int | None = None,
    step: int | None = None,
    stream: str | None = None,
    text: str | None = None,
    before: int | None = None,
    limit: int,
) -> types.LogsDocument:
    """Return the newest entries of a run's log before a position, in order.

    Args:
        node: only entries of this node; `item`: only of this item of a map; `step`: only in this
            super-step.
        stream: only of this stream; `text`: only those that contain it, in any case.
    """
    part = client.queries.log_part(run.run_id)
    first = part.end - len(part.entries)
    found = [
        (first + at, entry)
        for at, entry in enumerate(part.entries)
        if (node is None or entry["node"] == node)
        and (item is None or entry["index"] == item)
        and (step is None or entry["step"] == step)
        and (stream is None or entry["stream"] == stream)
        and (text is None or text.casefold() in entry["text"].casefold())
        and (before is None or first + at < before)
    ]
    shown = found[-limit:]
    return {
        "entries": [_log_document(number, entry) for number, entry in shown],
        "next": shown[0][0] if len(found) > len(shown) else None,
        "dropped": client.queries.logs_dropped(run.run_id),
        "nodes": sorted({entry["node"] for entry in part.entries}),
        "streams": sorted({entry["stream"] for entry in part.entries}),
    }


def children_document(client: Client, run: Run) -> types.ChildrenDocument:
    """Return child runs of a run, those that failed first, else in the order they were started."""
    now_ms = client.queries.now_ms()
    (found,) = client.queries.child_rows([run.run_id], most=MOST_ENTRIES, counted=0)
    rows = _failed_first(found.rows)
    shown, others = rows[:_MOST_CHILDREN], Counter(str(row.status) for row in rows[_MOST_CHILDREN:])
    below = read_children(client, [row.run_id for row in shown])
    everything = [*shown, *(row for each in below.values() for row in each.rows)]
    ended = [row.run_id for row in everything if row.status in WITH_REASON]
    errors = dict(zip(ended, client.queries.errors(ended), strict=True))

    def document(row: RunRow) -> types.ChildDocument:
        why, found = errors.get(row.run_id), below.get(row.run_id, NO_CHILDREN)
        return {
            **row_document(row, now_ms=now_ms),
            "started_by": None if row.started_by is None else row.started_by.node,
            "began_ms": row.started_at,
            "took_ms": None
            if row.started_at is None or row.ended_at is None
            else row.ended_at - row.started_at,
            "error": None if why is None else why.to_json(),
            "children": [document(child) for child in _failed_first(found.rows)],
            "more_children": left_out(found),
        }

    return {
        "children": [document(row) for row in shown],
        "more": left_out(ChildRows((), others, found.uncounted)),
    }


def _failed_first(rows: Iterable[RunRow]) -> list[RunRow]:
    return sorted(rows, key=lambda row: row.status not in (Status.FAILED, Status.TIMED_OUT))


def type_name(value: Any) -> str:
    """Return the name of a value's JSON type."""
    names = {str: "text", bool: "boolean", type(None): "null", list: "list", dict: "object"}
    return names.get(type(value), "number")


def _step_document(checkpoint: Checkpoint) -> types.StepDocument:
    return {
        "step": checkpoint.step,
        "at": to_rfc3339(checkpoint.at),
        "nodes": {node: dict(_plain(timing)) for node, timing in checkpoint.nodes.items()},
        "writes": sorted(checkpoint.writes),
        "next": list(checkpoint.frontier),
        "folded": checkpoint.folded,
    }


def _plain(timing: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield a node's fields without the items of a map, which have a list of their own."""
    for name, value in timing.items():
        branch = name == "branch"
        yield name, {k: v for k, v in value.items() if k != "items"} if branch else value


def _log_document(number: int, entry: Mapping[str, Any]) -> dict[str, Any]:
    at = to_rfc3339(entry["at"]) if "at" in entry else None
    return {"number": number, "try": 1, "attempt": 1, **entry, "at": at}


def _instant(ms: int | None) -> str | None:
    return None if ms is None else to_rfc3339(ms)


# ---- how much there is of each part


def parts_document(client: Client, run: Run, maps: Collection[str]) -> types.PartsDocument:
    """Count what a run has: model calls, log entries, items and child runs.

    Args:
        maps: the nodes of its graph that are maps; those that have begun are counted.
    """
    logs, children = client.queries.part_sizes(run.run_id)
    items, failed_items = 0, 0
    begun = [node for node in maps if node in run.visits]
    if begun:
        items, failed_items = _items(client, run, begun)
    return {
        "calls": sum_of(run.spent.values()).calls,
        "logs": logs,
        "items": items,
        "failed_items": failed_items,
        "children": children,
    }


def _items(client: Client, run: Run, maps: Collection[str]) -> tuple[int, int]:
    """Return how many items the last visits of maps have, and how many of them failed."""
    found: dict[str, tuple[int, int]] = {}
    for checkpoint in client.queries.checkpoints(run.run_id):
        for node, timing in checkpoint.nodes.items():
            done = items_done(timing)
            if done is not None and node in maps:
                found[node] = done, timing.get("failed", 0)
    visits = [VisitId.of(run.step, node) for node in run.frontier]
    progress = client.queries.map_progress(run.run_id, visits)
    for node, known in zip(run.frontier, progress, strict=True):
        if known is not None:
            found[node] = known["total"], found.get(node, (0, 0))[1]
    return sum(total for total, _ in found.values()), sum(failed for _, failed in found.values())
