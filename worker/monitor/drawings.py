"""Drawings of agents' versions: laid out once each, for all their runs.

In a graph too large to take in, nodes in a row become one box with the state of all of them.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from sleipnir.graphs.drawing.folding import ROW_TYPE, Rows, folded
from sleipnir.graphs.drawing.layout import Picture
from sleipnir.graphs.drawing.outline import Outline, outline_of
from sleipnir.graphs.drawing.page import lay_out
from sleipnir.graphs.schema import Graph
from sleipnir.records import dataclass
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views.documents import Document

_KEPT = 200
# A row shows the first of these states that any of its nodes has.
_TELLING: Final = ("failed", "timed_out", "waiting", "running", "queued", "cancelled", "tolerated")
_SUMMED: Final = ("visits", "failed", "total_s", "waited_s", "parked_s")


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph and its layout."""

    graph: Graph
    outline: Outline  # of all nodes
    picture: Picture
    rows: Rows  # nodes that are drawn as one box

    def boxes(self, nodes: Iterable[Document]) -> list[Document]:
        """Return the nodes of a `graph_document` as drawn; a row names the one `worth_a_look`."""
        by_id = {node["id"]: node for node in nodes}
        inner = {node for row in self.rows.values() for node in row[1:]}
        return [
            _row([by_id[each] for each in self.rows[node]]) if node in self.rows else by_id[node]
            for node in by_id
            if node not in inner
        ]

    def taken(self, arrows: Iterable[Document]) -> Counter[tuple[str, str]]:
        """Return how often the edge between two boxes was taken."""
        box_of = {node: first for first, row in self.rows.items() for node in row}
        taken: Counter[tuple[str, str]] = Counter()
        for arrow in arrows:
            ends: tuple[str, str] = arrow["from"], arrow["to"]
            source, target = (box_of.get(end, end) for end in ends)
            if source != target or target == ends[1]:  # otherwise within a row
                taken[source, target] += arrow["taken"]
        return taken

    def row_of(self, node: str) -> Sequence[str]:
        """Return all nodes of the row that contains a node; none if it has a box of its own."""
        return next((row for row in self.rows.values() if node in row), ())


def _row(nodes: Sequence[Document]) -> Document:
    """Return a row in the form of a node."""
    states = [node["state"] for node in nodes]
    telling = next((state for state in _TELLING if state in states), states[0])
    done = sum(state in ("done", "tolerated") for state in states)
    if telling in ("done", "untouched"):
        telling = "done" if done == len(nodes) else "untouched"
    costs = [node["usage"]["cost_usd"] for node in nodes]
    cost = None if None in costs else sum(costs)
    return {
        "id": nodes[0]["id"],
        "type": ROW_TYPE,
        "state": telling,
        "items": {"done": done, "total": len(nodes)},
        "worth_a_look": next((n["id"] for n in nodes if n["state"] == telling), nodes[0]["id"]),
        "usage": {**nodes[0]["usage"], "cost_usd": cost},
        **{name: sum(node[name] for node in nodes) for name in _SUMMED},
    }


class Drawings:
    """The drawings viewed last."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[str, Drawing] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, run: Run) -> Drawing:
        """Return the drawing of a run's agent as submitted; slow the first time.

        Raises:
            BundleError: the agent is no longer stored.
        """
        return self._of(run.digest, lambda: self._client.graph_of(run))

    def of_version(self, digest: str, graph: Graph) -> Drawing:
        """Return the drawing of an agent's version."""
        return self._of(digest, lambda: graph)

    def _of(self, digest: str, load: Callable[[], Graph]) -> Drawing:
        with self._lock:
            known = self._kept.get(digest)
            if known is not None:
                self._kept.move_to_end(digest)
                return known
        graph = load()
        outline = outline_of(graph)
        shown, rows = folded(outline)
        made = Drawing(graph, outline, lay_out(shown), rows)
        with self._lock:
            self._kept[digest] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made
