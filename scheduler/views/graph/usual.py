"""What runs of an agent's version usually do in its graph: where they go, and what nodes take.

It is computed from the newest runs that have ended, and from as many as can be read at once.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING, Final

from sleipnir.graphs.drawing.outline import Outline, Route
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.history import node_times
from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.runs.routes import RouteFinder
from sleipnir.scheduler.store.queries.filters import RunFilter

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import run as types

_KEPT_S: Final = 60.0
_MOST_VERSIONS: Final = 200
_LOOKED_AT: Final = 50  # the newest ended runs of the agent
_MOST_BYTES: Final = 1_048_576  # of their histories together
# Fewer runs do not tell what is usual.
LEAST_RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class UsualNode:
    """The medians of a node over runs that have visited it."""

    runs: int
    total_s: float
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class UsualGraph:
    """What some runs did."""

    runs: int
    taken_in: Mapping[Route, int]  # of these runs
    nodes: Mapping[str, UsualNode]

    @property
    def is_known(self) -> bool:
        return self.runs >= LEAST_RUNS

    def to_json(self) -> types.UsualGraphDocument | None:
        """Return the document; None if these are too few runs."""
        if not self.is_known:
            return None
        routes = sorted(self.taken_in.items())
        return {
            "runs": self.runs,
            "nodes": {
                node: {"runs": each.runs, "total_s": each.total_s, "cost_usd": each.cost_usd}
                for node, each in self.nodes.items()
            },
            "routes": [{"from": a, "to": b, "runs": runs} for (a, b), runs in routes],
        }


class UsualGraphs:
    """What is usual by agent's version, at most a minute old. Concurrent reads do no harm."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[str, tuple[float, UsualGraph]] = OrderedDict()

    def of(self, agent: str, digest: str, outline: Outline) -> UsualGraph:
        """Return what is usual for a version of an agent."""
        read_at, known = self._kept.get(digest, (0.0, None))
        if known is not None and monotonic() - read_at < _KEPT_S:
            return known
        found = self._read(agent, digest, outline)
        self._kept[digest] = (monotonic(), found)
        while len(self._kept) > _MOST_VERSIONS:
            self._kept.popitem(last=False)
        return found

    def _read(self, agent: str, digest: str, outline: Outline) -> UsualGraph:
        queries = self._client.queries
        ended = RunFilter(agents=(agent,), statuses=FINAL)
        runs = [run.run_id for run in queries.list_runs(ended, _LOOKED_AT).entries]
        histories = queries.histories(list(_fitting(runs, queries.history_sizes(runs), digest)))
        routes, taken = RouteFinder(outline), Counter[Route]()
        seconds, costs = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
        for history in histories:
            taken.update({route for checkpoint in history for route in routes.taken(checkpoint)})
            for times in node_times(history):
                seconds[times.node].append(times.total_ms / 1000)
                cost = times.usage.cost_usd
                costs[times.node] += [] if cost is None else [cost]
        nodes = {
            node: UsualNode(len(each), median(each), median(costs[node]) if costs[node] else None)
            for node, each in seconds.items()
        }
        return UsualGraph(len(histories), taken, nodes)


def _fitting(
    run_ids: Sequence[str], sizes: Sequence[tuple[str | None, int]], digest: str
) -> Iterator[str]:
    """Yield the runs of a version whose histories together are not too large."""
    room = _MOST_BYTES
    for run_id, (of_digest, size) in zip(run_ids, sizes, strict=True):
        if of_digest == digest and size <= room:
            room -= size
            yield run_id
