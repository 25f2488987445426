"""Drawings of agents' versions: laid out once each, for all their runs.

In a graph too large to take in, nodes in a row become one box with the state of all of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from sleipnir.errors import SleipnirError
from sleipnir.graphs.drawing import to_svg
from sleipnir.graphs.drawing.folding import ROW_TYPE, Rows, folded
from sleipnir.graphs.drawing.layout import Picture
from sleipnir.graphs.drawing.outline import Outline, Route, including
from sleipnir.graphs.drawing.page import Direction, lay_out
from sleipnir.graphs.schema import Graph
from sleipnir.records import dataclass
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.process.drawing.processes import DrawingProcesses, DrawingTooLarge
from sleipnir.scheduler.runs.model import Run
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.versions import AgentVersion

T = TypeVar("T")

_KEPT = 200
# Layouts at the same time, the CPU time of each, and how many may wait for their turn.
_PROCESSES = 2
_LIMIT_S = 5.0
_MOST_WAITING = 20
# A page waits for its drawing up to this long, and is shown without it then.
_MAX_WAIT_S = 5.0
# A row shows the first of these states that any of its nodes has.
_TELLING: Final = (
    *("failed", "timed_out", "waiting", "running", "queued", "staged", "interrupted"),
    *("cancelled", "tolerated"),
)
_SUMMED: Final = ("visits", "failed", "total_s", "waited_s", "parked_s")


class DrawingNotReady(SleipnirError):
    """The drawing may be there later."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """What of a graph is drawn."""

    key: str  # tells it from other drawings
    graph: Graph
    outline: Outline  # of all nodes
    shown: Outline
    rows: Rows  # nodes that are shown as one box

    def including(self, routes: Iterable[Route]) -> Drawing:
        """Return the drawing with those routes that only runs know of."""
        outline = including(self.outline, routes)
        if outline is self.outline:
            return self
        key = f"{self.key} {outline.arrows[len(self.outline.arrows) :]}"
        return Drawing(key, self.graph, outline, *folded(outline))

    def boxes(self, nodes: Iterable[Document]) -> list[Document]:
        """Return nodes of a `graph_document` as drawn; a row names its `representative_node`."""
        by_id = {node["id"]: node for node in nodes}
        inner = {node for row in self.rows.values() for node in row[1:]}
        return [
            _row([by_id[each] for each in self.rows[node]]) if node in self.rows else by_id[node]
            for node in by_id
            if node not in inner
        ]

    def taken(self, arrows: Iterable[Document]) -> Counter[Route]:
        """Return how often the edge between two boxes was taken, from a `graph_document`."""
        counts = Counter[Route]()
        for arrow in arrows:
            counts[arrow["from"], arrow["to"]] += arrow["taken"]
        return self.taken_between(counts)

    def taken_between(self, counts: Mapping[Route, int]) -> Counter[Route]:
        """Return the same from how often the edges between nodes were taken."""
        box_of = {node: first for first, row in self.rows.items() for node in row}
        taken = Counter[Route]()
        for ends, count in counts.items():
            source, target = (box_of.get(end, end) for end in ends)
            if source != target or target == ends[1]:  # otherwise within a row
                taken[source, target] += count
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
        "representative_node": next(
            (n["id"] for n in nodes if n["state"] == telling), nodes[0]["id"]
        ),
        "usage": {**nodes[0]["usage"], "cost_usd": cost},
        **{name: sum(node[name] for node in nodes) for name in _SUMMED},
    }


def chosen_routes(arrows: Iterable[Document]) -> Iterator[Route]:
    """Yield the routes of a `graph_document` that scripts have chosen."""
    return ((arrow["from"], arrow["to"]) for arrow in arrows if arrow["kind"] == "chosen")


class Drawings:
    """The drawings viewed last, and the processes that lay them out.

    Laying out is left to processes, as it holds the interpreter and may take for ever. Requests for
    one drawing wait for the same layout, and what was given up once is not tried again.

    Args:
        limit_s: CPU time per layout.
        max_wait_s: how long a request waits for it.
    """

    def __init__(
        self, client: Client, limit_s: float = _LIMIT_S, max_wait_s: float = _MAX_WAIT_S
    ) -> None:
        self._max_wait_s = max_wait_s
        self._client = client
        self._drawings: OrderedDict[str, Drawing] = OrderedDict()
        self._lock = threading.Lock()
        self._made: OrderedDict[Hashable, asyncio.Future[Any]] = OrderedDict()
        self._native = DrawingProcesses(limit_s, _PROCESSES)
        self._threads = ThreadPoolExecutor(_PROCESSES, "drawings")

    def of(self, run: Run) -> Drawing:
        """Return what is drawn of a run's agent as submitted.

        Raises:
            BundleError: the agent is no longer stored.
        """
        return self._of(run.digest, lambda: self._client.outline_of(run))

    def of_version(self, version: AgentVersion) -> Drawing:
        """Return what is drawn of an agent's version that is a graph."""
        graph, outline, digest = version.graph, version.outline, version.document["digest"]
        assert graph is not None
        assert outline is not None
        assert digest is not None
        return self._of(digest, lambda: (graph, outline))

    def _of(self, digest: str, load: Callable[[], tuple[Graph, Outline]]) -> Drawing:
        with self._lock:
            known = self._drawings.get(digest)
            if known is not None:
                self._drawings.move_to_end(digest)
                return known
        graph, outline = load()
        made = Drawing(digest, graph, outline, *folded(outline))
        with self._lock:
            self._drawings[digest] = made
            while len(self._drawings) > _KEPT:
                self._drawings.popitem(last=False)
        return made

    async def picture(self, drawing: Drawing, direction: Direction = "lr") -> Picture:
        """Return the layout of a drawing.

        Raises:
            DrawingTooLarge, DrawingNotReady: there is none, or not yet.
        """
        return await self._once(
            (drawing.key, direction), lambda: lay_out(drawing.shown, self._native, direction)
        )

    async def svg(self, drawing: Drawing) -> str:
        """Return a drawing as an SVG document; raises as `picture`."""
        return await self._once((drawing.key, "svg"), lambda: to_svg(drawing.outline, self._native))

    async def _once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` returns or returned before, or raise the same."""
        making = self._made.get(key)
        if making is None:
            if sum(not each.done() for each in self._made.values()) >= _MOST_WAITING:
                raise DrawingNotReady("too many drawings are being laid out now; reload this later")
            making = asyncio.get_running_loop().run_in_executor(self._threads, make)
            making.add_done_callback(lambda done: self._keep(key, done))
            self._made[key] = making
        elif making.done():
            self._made.move_to_end(key)
        try:
            # Shielded, as others may wait for it too, and come back for it.
            return await asyncio.wait_for(asyncio.shield(making), self._max_wait_s)
        except TimeoutError as error:
            raise DrawingNotReady("the graph is still being laid out; reload this later") from error

    def _keep(self, key: Hashable, made: asyncio.Future[Any]) -> None:
        if made.cancelled() or not isinstance(made.exception(), DrawingTooLarge | None):
            del self._made[key]
        kept = [key for key, each in self._made.items() if each.done()]
        for old in kept[: len(kept) - _KEPT]:
            del self._made[old]

    def close(self) -> None:
        """End the processes at once."""
        self._native.close()
        self._threads.shutdown(wait=False, cancel_futures=True)
