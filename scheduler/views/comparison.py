"""The comparison of two runs: differences, the first diverging step, files of their agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from sleipnir.graphs.errors import BundleError
from sleipnir.scheduler.client.rerun.difference import (
    Difference,
    NodeDifference,
    Side,
    compare,
    side_of,
)
from sleipnir.scheduler.views.documents import excerpt
from sleipnir.scheduler.views.text.content import content_text
from sleipnir.scheduler.views.versions import difference, stored_version

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.client.rerun.documents import MadeDocument, PairDocument
    from sleipnir.scheduler.runs.model import Run
    from sleipnir.scheduler.views.types import comparison as types
    from sleipnir.scheduler.views.types.agents import FileChangeDocument

T = TypeVar("T")

# The most rows of each table per request.
MOST_ROWS = 100
# Limit for one value among them, characters of its JSON.
_MOST_OF_VALUE = 1_000
# The most steps of a route per request.
_MOST_STEPS = 1_000

# The results of a node; its duration does not count as a difference.
_MADE = ("writes", "output", "error", "route")


def comparison_document(
    client: Client, a: str, b: str, step: int | None = None
) -> types.ComparisonDocument:
    """Return how run `b` differs from `a`, now or after a step; extends `diff --json`.

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
        "first": _first(found, *(_prompts(client, side.run) for side in sides)),
        "inputs": dict(_inputs(*sides)),
        "files": _files(client, sides[0].run, sides[1].run),
    }


def rows_of(
    document: types.ComparisonDocument, start: int = 0, most: int = MOST_ROWS
) -> types.ComparisonPageDocument:
    """Return a comparison with at most so many rows of each table, the nodes from `start` on."""
    inputs, state, first = document["inputs"], document["state"], document["first"]
    route, nodes = document["route"], document["nodes"]
    return {
        **document,
        "inputs": _first_of(inputs, most),
        "state": {
            "added": _first_of(state["added"], most),
            "removed": _first_of(state["removed"], most),
            "changed": _first_of(state["changed"], most),
        },
        "route": {
            "common": route["common"][:_MOST_STEPS],
            "a": route["a"][:_MOST_STEPS],
            "b": route["b"][:_MOST_STEPS],
        },
        "nodes": nodes[start : start + most],
        "next": start + most if start + most < len(nodes) else None,
        "first": None if first is None else {**first, "nodes": first["nodes"][:most]},
        "more": {
            "common": max(0, len(route["common"]) - _MOST_STEPS),
            "a": max(0, len(route["a"]) - _MOST_STEPS),
            "b": max(0, len(route["b"]) - _MOST_STEPS),
            "inputs": max(0, len(inputs) - most),
            "added": max(0, len(state["added"]) - most),
            "removed": max(0, len(state["removed"]) - most),
            "changed": max(0, len(state["changed"]) - most),
            "first": 0 if first is None else max(0, len(first["nodes"]) - most),
        },
    }


def _first_of(table: Mapping[str, T], most: int) -> dict[str, T]:
    return dict(islice(table.items(), most))


def with_excerpts(document: types.ComparisonPageDocument) -> types.ComparisonPageDocument:
    """Return a comparison in which large values are `{text, left_out}`, of their JSON."""
    state, first, output = document["state"], document["first"], document["output"]
    return {
        **document,
        "inputs": _cut_pairs(document["inputs"]),
        "output": None if output is None else _cut_pair(output),
        "nodes": [{**node, **_cut_made(node)} for node in document["nodes"]],
        "state": {
            "added": {path: _cut(value) for path, value in state["added"].items()},
            "removed": {path: _cut(value) for path, value in state["removed"].items()},
            "changed": _cut_pairs(state["changed"]),
        },
        "first": None
        if first is None
        else {
            **first,
            "nodes": [
                {**node, **_cut_made(node), "prompt": _cut_pair(node["prompt"])}
                for node in first["nodes"]
            ],
        },
    }


def _cut_made(node: MadeDocument) -> MadeDocument:
    return {
        "writes": _cut_pair(node["writes"]),
        "output": _cut_pair(node["output"]),
        "error": _cut_pair(node["error"]),
        "route": _cut_pair(node["route"]),
    }


def _cut_pairs(pairs: Mapping[str, PairDocument]) -> dict[str, PairDocument]:
    return {name: _cut_pair(pair) for name, pair in pairs.items()}


def _cut_pair(pair: PairDocument) -> PairDocument:
    return {"a": _cut(pair["a"]), "b": _cut(pair["b"])}


def _cut(value: Any) -> Any:
    shown = excerpt(value, _MOST_OF_VALUE)
    return shown if shown["left_out"] else value


def what_differs(node: NodeDifference) -> list[str]:
    """Return the results in which two visits differ; `only in a` if `b` has no such visit."""
    step = node.fields["step"]
    if step.a is None or step.b is None:
        return ["only in b" if step.a is None else "only in a"]
    return [name for name in _MADE if node.fields[name].differs]


def _run_document(run: Run) -> types.ComparedRunDocument:
    return {
        "run_id": run.run_id,
        "agent": run.agent,
        "digest": run.digest,
        "status": str(run.status),
        "is_final": run.is_final,
    }


def _prompts(client: Client, run: Run) -> dict[tuple[int, str], str]:
    """Return what models were sent first, by the step and node of a visit."""
    found: dict[tuple[int, str], str] = {}
    for entry in client.queries.transcripts(run.run_id):
        if entry["index"] is None and entry["exchanges"]:
            said = entry["exchanges"][0]["messages"]
            texts = (f"{each.get('role')}: {content_text(each.get('content'))}" for each in said)
            found[entry["step"], entry["node"]] = "\n\n".join(texts)
    return found


def _first(
    found: Difference,
    prompts_a: Mapping[tuple[int, str], str],
    prompts_b: Mapping[tuple[int, str], str],
) -> types.PartingDocument | None:
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
                "writes": node.fields["writes"].to_json(),
                "output": node.fields["output"].to_json(),
                "error": node.fields["error"].to_json(),
                "route": node.fields["route"].to_json(),
                "prompt": {
                    "a": prompts_a.get((step.a, node.node)),
                    "b": prompts_b.get((step.b, node.node)),
                },
            }
            for node in nodes
            if what_differs(node)
        ],
    }


def _is_at(node: NodeDifference, step_a: int | None, step_b: int | None) -> bool:
    """Return whether a node belongs to these steps."""
    step = node.fields["step"]
    return (step.a, step.b) == (step_a, step_b)


def _inputs(a: Side, b: Side) -> Iterator[tuple[str, PairDocument]]:
    begun = [side.checkpoints[0].writes if side.checkpoints else {} for side in (a, b)]
    for key in sorted(begun[0].keys() | begun[1].keys()):
        values = begun[0].get(key), begun[1].get(key)
        if values[0] != values[1]:
            yield key, {"a": values[0], "b": values[1]}


def _files(client: Client, a: Run, b: Run) -> list[FileChangeDocument] | None:
    if a.digest == b.digest:
        return []
    if a.agent != b.agent:
        return None
    try:
        return difference(*(stored_version(client, run.agent, run.digest) for run in (a, b)))
    except BundleError:
        return None
