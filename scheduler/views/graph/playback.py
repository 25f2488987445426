"""The document of a run's steps, one after the other, as drawings of its graph play them."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING

from sleipnir.graphs.drawing.outline import Outline
from sleipnir.graphs.schema import Graph
from sleipnir.scheduler.runs.history import chain_rows
from sleipnir.scheduler.runs.model import Checkpoint, Run
from sleipnir.scheduler.runs.routes import RouteFinder

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import run as types

# Steps in one document.
MOST_STEPS = 5_000


def playback_document(
    client: Client, run: Run, graph: Graph, outline: Outline, *, start: int = 0
) -> types.PlaybackDocument:
    """Return what each step from one on did: which nodes it ran, and where they led.

    Nodes are numbers, as a run that goes round names the same few thousands of times.
    """
    ids = [box.id for box in outline.boxes]
    numbers = {node: number for number, node in enumerate(ids)}
    routes = RouteFinder(outline)
    steps: list[types.PlaybackStepDocument] = []
    marks: types.PlaybackMarksDocument = {"failed": [], "asked": [], "again": []}
    asking = {node_id for node_id, node in graph.nodes.items() if node.ASKS_PEOPLE}
    visits: Counter[str] = Counter()
    following = None
    for checkpoint in client.queries.checkpoints(run.run_id):
        ran = [node for node in _ran(checkpoint) if node in numbers]
        visits.update(ran)
        if checkpoint.step < start:
            continue
        if len(steps) == MOST_STEPS:
            following = checkpoint.step
            break
        failed = [node for node in checkpoint.nodes if checkpoint.nodes[node].get("failed")]
        for name, is_marked in (
            ("failed", bool(failed)),
            ("asked", not asking.isdisjoint(ran)),
            ("again", any(visits[node] > 1 for node in checkpoint.nodes)),
        ):
            if is_marked:
                marks[name].append(checkpoint.step)  # type: ignore[literal-required]
        steps.append(
            {
                "step": checkpoint.step,
                "ran": [numbers[node] for node in ran],
                "failed": [numbers[node] for node in failed if node in numbers],
                "next": [numbers[node] for node in checkpoint.frontier if node in numbers],
                "taken": [
                    [numbers[end] for end in route]
                    for route in routes.taken(checkpoint)
                    if all(end in numbers for end in route)
                ],
            }
        )
    return {"nodes": ids, "steps": steps, "marks": marks, "next": following}


def _ran(checkpoint: Checkpoint) -> list[str]:
    """Return the nodes of a step, and those that its maps ran for their items."""
    of_maps = chain.from_iterable(map(chain_rows, checkpoint.nodes.values()))
    return [*checkpoint.nodes, *(row["id"] for row in of_maps)]
