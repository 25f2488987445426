"""Drawings of agents' versions: laid out once each, for all their runs."""

from __future__ import annotations

import threading
from collections import OrderedDict

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
        with self._lock:
            known = self._kept.get(run.digest)
            if known is not None:
                self._kept.move_to_end(run.digest)
                return known
        graph = self._client.graph_of(run)
        made = Drawing(graph, outline_of(graph), lay_out(graph))
        with self._lock:
            self._kept[run.digest] = made
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
        return made
