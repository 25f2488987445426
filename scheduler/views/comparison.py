"""The comparison of two runs: differences, the first diverging step, files of their agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.errors import BundleError
from sleipnir.scheduler.second_chances.difference import (
    Difference,
    NodeDifference,
    Side,
    compare,
    side_of,
)
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.versions import difference, stored_version

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.model import Run

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
