"""Which arrows of a graph a run has taken, from its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.drawing.outline import Outline, Route
from sleipnir.scheduler.runs.model import Checkpoint


class RouteFinder:
    """Tells which routes a run took between two steps of a graph.

    Checkpoints do not say which of several nodes led to a node of the next step. Of these, it is
    those that declare it, else those whose scripts name it, else all scripts.
    """

    def __init__(self, outline: Outline) -> None:
        self._declared: dict[str, set[str]] = {}
        self._named: dict[str, set[str]] = {}
        self._scripts = {box.id for box in outline.boxes if box.type == "script"}
        for arrow in outline.arrows:
            if arrow.kind != "each":
                of_kind = self._named if arrow.kind == "chosen" else self._declared
                of_kind.setdefault(arrow.source, set()).add(arrow.target)

    def taken(self, checkpoint: Checkpoint) -> Iterator[Route]:
        """Yield each route from a node of a step to one of the next step."""
        nodes = checkpoint.nodes
        for target in checkpoint.frontier:
            sources = (
                [node for node in nodes if target in self._declared.get(node, ())]
                or [node for node in nodes if target in self._named.get(node, ())]
                or [node for node in nodes if node in self._scripts]
            )
            for source in sources:
                yield source, target
