"""The document of one node of a run's graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.dataflow import STATE_UPDATES, state_reads, templates
from sleipnir.graphs.schema import Graph, Node, ScriptNode
from sleipnir.scheduler.runs.history import chain_rows
from sleipnir.scheduler.runs.model import Checkpoint, Run
from sleipnir.scheduler.views.documents import excerpt
from sleipnir.scheduler.views.run import logs_document
from sleipnir.scheduler.views.timeline import find_unfinished, last_step_rows

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import records as record_types
    from sleipnir.scheduler.views.types import run as types

# What is shown of a node: the newest visits, characters of a text, keys and log entries.
_NEWEST_VISITS = 20
_MOST_OF_TEXT = 10_000
_MOST_OF_VALUE = 2_000
_MOST_KEYS = 50
_MOST_LOG_ENTRIES = 20


def node_document(
    client: Client,
    run: Run,
    graph: Graph,
    node_id: str,
    *,
    step: int | None,
    mask: Callable[[Any], Any],
) -> types.NodeDocument:
    """Return a node's definition, its newest visits up to a step, and the last one of them.

    `visit` has what its step wrote, and its log; null if no visit is committed. `unfinished` is the
    visit that is under way, or that the run ended in, with the values that its templates read.

    Args:
        mask: hides secrets in JSON; called before texts are cut, which could leave a part of one.
    """
    node = graph.nodes[node_id]
    keys = sorted({each.key for each in state_reads(node) if each.field[0] != STATE_UPDATES})
    visits = deque[Checkpoint](maxlen=_NEWEST_VISITS)
    values: dict[str, Any] = {}
    read: dict[str, Any] = {}  # in its last visit
    for checkpoint in client.queries.checkpoints(run.run_id):
        if step is not None and checkpoint.step > step:
            break
        if _is_visited(checkpoint, node_id):
            visits.append(checkpoint)
            read = dict(values)
        values |= {key: checkpoint.writes[key] for key in keys if key in checkpoint.writes}
    steps = client.queries.steps(run.run_id)
    is_now = steps < run.step and step in (None, steps)
    return {
        "id": node_id,
        "description": node.description,
        "model": _model_of(node, graph, client.store.settings.model),
        "templates": [
            {"field": ".".join(map(str, each.field)), **excerpt(mask(each.text), _MOST_OF_TEXT)}
            for each in templates(node)
        ],
        "script": node.script if isinstance(node, ScriptNode) else None,
        "visits": [checkpoint.step for checkpoint in visits],
        "visit": (
            _visit_document(client, run, node, node_id, visits[-1], _inputs(keys, read, mask), mask)
            if visits
            else None
        ),
        "unfinished": _unfinished_document(client, run, node_id, keys, mask) if is_now else None,
    }


def _unfinished_document(
    client: Client, run: Run, node_id: str, keys: Sequence[str], mask: Callable[[Any], Any]
) -> types.UnfinishedVisitDocument | None:
    """Return the visit that is not committed; None if the node has not begun."""
    row = find_unfinished(last_step_rows(client, run), node_id)
    if row is None:
        return None
    attempts = [pause["attempt"] for pause in row["pauses"] if pause["attempt"] is not None]
    failure = run.failure if run.failure is not None and run.failure.node == node_id else None
    values = client.queries.state_values(run.run_id, keys[:_MOST_KEYS]) if keys else {}
    logs = logs_document(client, run, node=node_id, step=run.step, limit=_MOST_LOG_ENTRIES)
    entries = logs["entries"]
    if failure is not None and entries and entries[-1]["stream"] == "failure":
        entries = entries[:-1]  # it says what `error` says
    return {
        **row,
        "attempts": max(attempts, default=1),
        "error": None if failure is None else failure.to_json(),
        "input": _inputs(keys, values, mask),
        "log": excerpt(mask("\n".join(each["text"] for each in entries)), _MOST_OF_TEXT),
    }


def _inputs(
    keys: Sequence[str], values: Mapping[str, Any], mask: Callable[[Any], Any]
) -> list[record_types.KeyedExcerptDocument]:
    return [
        {"key": key, **excerpt(mask(values[key]), _MOST_OF_VALUE)}
        for key in keys[:_MOST_KEYS]
        if key in values
    ]


def _is_visited(checkpoint: Checkpoint, node_id: str) -> bool:
    of_chains = (row["id"] for timing in checkpoint.nodes.values() for row in chain_rows(timing))
    return node_id in checkpoint.nodes or node_id in of_chains


def _model_of(node: Node, graph: Graph, default: str | None) -> str | None:
    return (node.model or graph.model or default) if hasattr(node, "model") else None


def _visit_document(
    client: Client,
    run: Run,
    node: Node,
    node_id: str,
    checkpoint: Checkpoint,
    inputs: list[record_types.KeyedExcerptDocument],
    mask: Callable[[Any], Any],
) -> types.NodeVisitDocument:
    others = [each for each in checkpoint.nodes if each != node_id]
    timing = checkpoint.nodes.get(node_id)
    written = {} if timing is None else checkpoint.writes
    if others:  # nodes that run in parallel declare all that they write
        written = {key: written[key] for key in written if key in node.written_keys()}
    logs = logs_document(client, run, node=node_id, step=checkpoint.step, limit=_MOST_LOG_ENTRIES)
    return {
        "step": checkpoint.step,
        "took_s": None if timing is None else int(timing.get("ms", 0)) / 1000,
        "others": others,
        "input": inputs,
        "writes": [
            {"key": key, **excerpt(mask(written[key]), _MOST_OF_VALUE)}
            for key in sorted(written)[:_MOST_KEYS]
        ],
        "more_writes": max(0, len(written) - _MOST_KEYS),
        "log": excerpt(mask("\n".join(each["text"] for each in logs["entries"])), _MOST_OF_TEXT),
    }
