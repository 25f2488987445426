"""What the nodes of a batch's runs did and cost, and which routes its lines took.

All is stored with each run: its checkpoints say what was visited, its record what was spent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.schema import Graph, distinct
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.history import node_times
from sleipnir.scheduler.runs.model import Checkpoint, Run, VisitCounts
from sleipnir.scheduler.runs.spending import NOTHING_SPENT, Spent, spent_by_node

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import batches as types

# Runs are read with their writes, which may be large.
_AT_ONCE = 20


class _Route(NamedTuple):
    node: str
    number: int
    label: str
    to: tuple[str, ...]


@dataclass(slots=True)
class _Node:
    visits: int = 0
    failed: int = 0
    counts: VisitCounts = VisitCounts()
    spent: Spent = NOTHING_SPENT


class BatchNodes:
    """Adds up the runs of a batch."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._routes: Counter[_Route] = Counter()
        self._graph: Graph | None = None  # of the newest run

    def follow(self, graph: Graph) -> None:
        """List nodes in the order of a graph, and of a node's routes those that no line took."""
        self._graph = graph

    def add(self, run: Run, history: Sequence[Checkpoint]) -> None:
        """Add a run; of one that has not ended, what is committed."""
        for row in node_times(history):
            node = self._node(row.node)
            node.visits += row.visits
            node.failed += row.failed
            node.counts = node.counts.plus(row.counts)
        if run.failure is not None and run.failure.node in run.frontier:  # it committed nothing
            node = self._node(run.failure.node)
            node.visits += 1
            node.failed += 1
        for name, spent in spent_by_node(run).items():
            if name:  # the rest is not told apart
                self._node(name).spent += spent
        self._routes.update(set(_routes(history)))

    def _node(self, name: str) -> _Node:
        return self._nodes.setdefault(name, _Node())

    def nodes(self) -> list[types.BatchNodeDocument]:
        """Return a row for each node that was visited."""
        total = sum(node.spent.cost_units for node in self._nodes.values())
        places = self._places()
        return [
            _node_document(name, self._nodes[name], total)
            for name in sorted(self._nodes, key=lambda name: (places.get(name, len(places)), name))
        ]

    def routes(self) -> list[types.BatchRouteDocument]:
        """Return a row for each route of nodes that have decided."""
        places = self._places()
        lines = {**dict.fromkeys(self._declared(), 0), **self._routes}
        return [
            {
                "node": route.node,
                "index": route.number,
                "label": route.label,
                "to": list(route.to),
                "lines": lines[route],
            }
            for route in sorted(lines, key=lambda each: (places.get(each.node, len(places)), each))
        ]

    def _places(self) -> dict[str, int]:
        nodes = () if self._graph is None else self._graph.nodes
        return {name: place for place, name in enumerate(nodes)}

    def _declared(self) -> Iterator[_Route]:
        """Yield the routes of those nodes; what nodes of a chain decide for items is not stored."""
        for name in {route.node for route in self._routes}:
            node = None if self._graph is None else self._graph.nodes.get(name)
            if node is not None and node.conditional_next is not None:
                for number, way in enumerate(node.ways_on(), 1):
                    yield _Route(name, number, way.label, distinct(way.to))


def _routes(history: Iterable[Checkpoint]) -> Iterator[_Route]:
    for checkpoint in history:
        for node, timing in checkpoint.nodes.items():
            if (taken := timing.get("route")) is not None:
                yield _Route(node, taken["index"], taken["label"], tuple(taken["to"]))


def _node_document(name: str, node: _Node, total: int) -> types.BatchNodeDocument:
    spent = node.spent
    return {
        "id": name,
        "visits": node.visits,
        "failed": node.failed,
        "retried": node.counts.retried,
        "calls": spent.calls,
        "extraction_calls": node.counts.extraction,
        "cached": node.counts.cached,
        "tokens": spent.prompt_tokens + spent.completion_tokens,
        "cost_usd": spent.usage.cost_usd,
        "share": spent.cost_units / total if total else None,
    }


def batch_nodes(
    client: Client, batch: str, on_read: Callable[[int], None] = lambda _: None
) -> BatchNodes:
    """Read all runs of a batch that are stored, once.

    Args:
        on_read: called with the number of runs that are read.
    """
    queries, found, read = client.queries, BatchNodes(), 0
    for run_ids in queries.batch_pages(batch, _AT_ONCE):
        runs, histories = queries.runs(run_ids), queries.histories(run_ids)
        for run, history in zip(runs, histories, strict=True):
            if run is not None:
                found.add(run, history)
        if not read and runs[0] is not None:
            with suppress(BundleError):  # it is no longer stored
                found.follow(client.graph_of(runs[0]))
        read += len(run_ids)
        on_read(read)
    return found
