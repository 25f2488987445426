"""The comparison of two runs: differences, the first diverging step, files of their agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.errors import BundleError
from sleipnir.scheduler.client.rerun.difference import (
    Difference,
    NodeDifference,
    Side,
    compare,
    side_of,
)
from sleipnir.scheduler.views.documents import Document, excerpt
from sleipnir.scheduler.views.versions import difference, stored_version

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Run

# The most rows of each table per request.
MOST_ROWS = 100
# Limit for one value among them, characters of its JSON.
_MOST_OF_VALUE = 1_000
# The most steps of a route per request.
_MOST_STEPS = 1_000

# The results of a node; its duration does not count as a difference.
_MADE = ("writes", "output", "error")


def comparison_document(client: Client, a: str, b: str, step: int | None = None) -> Document:
    """Return how run `b` differs from `a`, now or after a step; extends `diff --json`.

    `first` has the first steps with different results, with their nodes and writes; null if there
    are none. `inputs` has the differing values that they began with. `files` has the differing
    files of the agent; null if unknown.

    Raises:
        RunNotFound: there is none of that id.
        SubmissionRefused: one of them has not reached that step.
    """
    sides = side_of(client.queries, a, step), side_of(client.queries, b, step)
    found = compare(*sides)
    return {
        "a": _run_document(sides[0].run),
        "b": _run_document(sides[1].run),
        **found.to_json(),
        "output": found.output.to_json() if found.output.differs else None,
        "first": _first(found),
        "inputs": dict(_inputs(*sides)),
        "files": _files(client, sides[0].run, sides[1].run),
    }


def rows_of(document: Document, start: int = 0, most: int = MOST_ROWS) -> Document:
    """Return a comparison with at most so many rows of each table, the nodes from `start` on.

    `next` is the `start` to continue from; null after the last node. `more` counts what is left
    out of each of the others.
    """
    tables = {"inputs": document["inputs"], **document["state"]}
    route, nodes = document["route"], document["nodes"]
    inputs, *state = (dict(islice(table.items(), most)) for table in tables.values())
    first = document["first"]
    return {
        **document,
        "inputs": inputs,
        "state": dict(zip(document["state"], state, strict=True)),
        "route": {name: steps[:_MOST_STEPS] for name, steps in route.items()},
        "nodes": nodes[start : start + most],
        "next": start + most if start + most < len(nodes) else None,
        "first": None if first is None else {**first, "nodes": first["nodes"][:most]},
        "more": {
            **{name: max(0, len(steps) - _MOST_STEPS) for name, steps in route.items()},
            **{name: max(0, len(table) - most) for name, table in tables.items()},
            "first": 0 if first is None else max(0, len(first["nodes"]) - most),
        },
    }


def with_excerpts(document: Document) -> Document:
    """Return a comparison in which large values are `{text, left_out}`, of their JSON."""
    state, first = document["state"], document["first"]
    return {
        **document,
        "inputs": _cut_pairs(document["inputs"]),
        "output": document["output"] and _cut_pair(document["output"]),
        "nodes": [_cut_node(node) for node in document["nodes"]],
        "state": {
            "added": {path: _cut(value) for path, value in state["added"].items()},
            "removed": {path: _cut(value) for path, value in state["removed"].items()},
            "changed": _cut_pairs(state["changed"]),
        },
        "first": first and {**first, "nodes": [_cut_node(node) for node in first["nodes"]]},
    }


def _cut_node(node: Document) -> Document:
    return {**node, **{name: _cut_pair(node[name]) for name in _MADE}}


def _cut_pairs(pairs: Document) -> Document:
    return {name: _cut_pair(pair) for name, pair in pairs.items()}


def _cut_pair(pair: Document) -> Document:
    return {side: _cut(value) for side, value in pair.items()}


def _cut(value: Any) -> Any:
    shown = excerpt(value, _MOST_OF_VALUE)
    return shown if shown["left_out"] else value


def what_differs(node: NodeDifference) -> list[str]:
    """Return the results in which two visits differ; `only in a` if `b` has no such visit."""
    step = node.fields["step"]
    if step.a is None or step.b is None:
        return ["only in b" if step.a is None else "only in a"]
    return [name for name in _MADE if node.fields[name].differs]


def _run_document(run: Run) -> Document:
    return {
        "run_id": run.run_id,
        "agent": run.agent,
        "digest": run.digest,
        "status": str(run.status),
        "is_final": run.is_final,
    }


def _first(found: Difference) -> Document | None:
    parted = next((node for node in found.nodes if what_differs(node)), None)
    if parted is None:
        return None
    step = parted.fields["step"]
    nodes = [node for node in found.nodes if _is_at(node, step.a, step.b)]
    return {
        "step": step.to_json(),
        "nodes": [
            {
                "id": node.node,
                "differs": what_differs(node),
                **{name: node.fields[name].to_json() for name in _MADE},
            }
            for node in nodes
            if what_differs(node)
        ],
    }


def _is_at(node: NodeDifference, step_a: int | None, step_b: int | None) -> bool:
    """Return whether a node belongs to these steps."""
    step = node.fields["step"]
    return (step.a, step.b) == (step_a, step_b)


def _inputs(a: Side, b: Side) -> Iterator[tuple[str, Any]]:
    begun = [side.checkpoints[0].writes if side.checkpoints else {} for side in (a, b)]
    for key in sorted(begun[0].keys() | begun[1].keys()):
        values = begun[0].get(key), begun[1].get(key)
        if values[0] != values[1]:
            yield key, {"a": values[0], "b": values[1]}


def _files(client: Client, a: Run, b: Run) -> Sequence[Document] | None:
    if a.digest == b.digest:
        return []
    if a.agent != b.agent:
        return None
    try:
        return difference(*(stored_version(client, run.agent, run.digest) for run in (a, b)))
    except BundleError:
        return None
