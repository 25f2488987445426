"""Drawings of agents' versions: laid out once each, for all their runs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from sleipnir.graphs.drawing.layout import Picture
from sleipnir.graphs.drawing.outline import Outline, outline_of
from sleipnir.graphs.drawing.page import lay_out
from sleipnir.graphs.schema import Graph
from sleipnir.records import dataclass
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.model import Run

_KEPT = 200


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph and its layout."""

    graph: Graph
    outline: Outline
    picture: Picture


class Drawings:
    """The newest that were looked at."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[str, Drawing] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, run: Run) -> Drawing:
        """The drawing of a run's agent as it was submitted; takes a while the first time.

        Raises:
            BundleError: the agent is not kept any more.
        """
        return self._of(run.digest, lambda: self._client.graph_of(run))

    def of_version(self, digest: str, graph: Graph) -> Drawing:
        """The drawing of an agent's version."""
        return self._of(digest, lambda: graph)

    def _of(self, digest: str, load: Callable[[], Graph]) -> Drawing:
        with self._lock:
            known = self._kept.get(digest)
            if known is not None:
                self._kept.move_to_end(digest)
                return known
        graph = load()
        made = Drawing(graph, outline_of(graph), lay_out(graph))
        with self._lock:
            self._kept[digest] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made
