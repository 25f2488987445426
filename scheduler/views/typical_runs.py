"""What is usual for an agent's runs, cached as many pages show it; and open runs that exceed it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from sleipnir.records import dataclass
from sleipnir.scheduler.limits.money import dollars
from sleipnir.scheduler.runs.model import FINAL, Status
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views import agents
from sleipnir.scheduler.views.agents import percentile
from sleipnir.scheduler.views.documents import row_document
from sleipnir.scheduler.views.text.formatting import age

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types.agents import TypicalDocument
    from sleipnir.scheduler.views.types.records import MarkedRunDocument, RunRowDocument

_KEPT_S = 60.0
_MOST_AGENTS = 200
# So many times what 95 % of its agent's runs stay below; of the visits of a node, more.
_TIMES = 5
_TIMES_VISITS = 10
# Fewer ended runs do not tell what is usual; and fewer not what 99 % of them stay below.
_LEAST_RUNS = 5
_LEAST_RUNS_99 = 100
# A shorter time is never unusual.
_SHORT_S = 60.0
# As many steps always are, if nothing is known of the agent.
_MANY_STEPS = 1_000
# Ended runs whose visits are counted.
_MOST_COUNTED = 200
# Open runs that are looked at, the oldest first.
_LOOKED_AT = 200
_OPEN = frozenset(Status) - FINAL


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of an agent's runs."""

    read_at: float
    typical: TypicalDocument
    ended: Sequence[str]  # ids of some, the newest
    visits: Mapping[str, int] | None = None  # 95 % visit a node at most so often; None: not read


class TypicalRuns:
    """Typical figures by agent, at most a minute old. Concurrent reads do no harm.

    Args:
        begin: calls a function without waiting for it.
    """

    def __init__(self, client: Client, begin: Callable[[Callable[[], object]], object]) -> None:
        self._client = client
        self._begin = begin
        self._kept: OrderedDict[str, _Known] = OrderedDict()

    def of(self, agent: str) -> TypicalDocument:
        """Return the typical figures of an agent, as `typical_document`."""
        known = self._kept.get(agent)
        if known is None or monotonic() - known.read_at >= _KEPT_S:
            known = self._read(agent)
        return known.typical

    def lately(self, agent: str) -> TypicalDocument:
        """Return the same without waiting, once they were read: old ones are renewed meanwhile."""
        known = self._kept.get(agent)
        if known is None:
            return self._read(agent).typical
        if monotonic() - known.read_at >= _KEPT_S:
            self._kept[agent] = replace(known, read_at=monotonic())
            self._begin(partial(self._read, agent))
        return known.typical

    def known(self, agent: str) -> TypicalDocument | None:
        """Return what was read of an agent, however long ago; None if nothing was."""
        known = self._kept.get(agent)
        return None if known is None else known.typical

    def _read(self, agent: str) -> _Known:
        runs = agents.newest_runs(self._client, agent)
        found = agents.typical_document(runs, self._client.queries.now_ms())
        ended = [run.run_id for run in runs if run.is_final][:_MOST_COUNTED]
        known = self._kept[agent] = _Known(monotonic(), found, ended)
        while len(self._kept) > _MOST_AGENTS:
            self._kept.popitem(last=False)
        return known

    def excesses(self, runs: Sequence[RunRowDocument]) -> list[str | None]:
        """Return a sentence on how each exceeds what is usual for its agent; None: it does not."""
        repeating = [run["run_id"] for run in runs if self._may_repeat(run)]
        counted = zip(repeating, self._client.queries.node_visits(repeating), strict=True)
        visits = dict(counted) if repeating else {}
        return [self._excess_of(run, visits.get(run["run_id"], {})) for run in runs]

    def _may_repeat(self, run: RunRowDocument) -> bool:
        """Return whether an open run took more steps than usual: it may visit a node often."""
        if run["status"] not in _OPEN or run["step"] <= _TIMES_VISITS:
            return False
        usual = self.lately(run["agent"])
        return usual["runs"] >= _LEAST_RUNS and run["step"] > (usual["steps"]["p95"] or 0)

    def _excess_of(self, run: RunRowDocument, visits: Mapping[str, int]) -> str | None:
        cost, steps, took_s = run["usage"]["cost_usd"] or 0.0, run["step"], run["elapsed_s"] or 0.0
        is_small = not cost and steps <= _TIMES_VISITS and took_s < _SHORT_S
        if run["status"] not in _OPEN or is_small:
            return None
        usual = self.lately(run["agent"])
        if usual["runs"] < _LEAST_RUNS:
            return f"{steps:,} steps" if steps >= _MANY_STEPS else None
        most_cost = usual["cost_usd"]["p95"] or 0.0
        if most_cost and cost > _TIMES * most_cost:
            return f"cost {dollars(cost)}; 95 % of such runs cost less than {dollars(most_cost)}"
        return self._repetition(run["agent"], visits) or _slowness(took_s, usual)

    def _repetition(self, agent: str, visits: Mapping[str, int]) -> str | None:
        """Return which node was visited far more often than usual; None if none was."""
        if not visits:
            return None
        usual = self._usual_visits(agent)
        node = max(visits, key=lambda name: visits[name] / usual.get(name, 1))
        most = usual.get(node, 1)
        if visits[node] <= _TIMES_VISITS * most:
            return None
        times = "once" if most == 1 else f"{most:,} times"
        return f"{visits[node]:,} visits of {node}; 95 % of such runs visit it at most {times}"

    def _usual_visits(self, agent: str) -> Mapping[str, int]:
        """Return how often 95 % of an agent's ended runs visit each node at most, at least once."""
        known = self._kept.get(agent) or self._read(agent)
        if known.visits is None:
            # Of those that are archived, Redis has no counts.
            visits = [each for each in self._client.queries.node_visits(known.ended) if each]
            known = self._kept[agent] = replace(known, visits=_usual_in(visits))
        return known.visits or {}


def _usual_in(runs: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Return how often 95 % of some runs visit each node at most, at least once."""
    nodes = {node for visits in runs for node in visits}
    counts = {node: [visits.get(node, 0) for visits in runs] for node in nodes}
    return {node: max(1, round(percentile(each, 0.95) or 0)) for node, each in counts.items()}


def _slowness(took_s: float, usual: TypicalDocument) -> str | None:
    """Return for how much longer than usual a run is open; None if it is not."""
    times = usual["elapsed_s"]
    most_s = times["p95"] or 0.0
    if not most_s or took_s < _SHORT_S:
        return None
    if took_s > _TIMES * most_s:
        return f"open for {age(took_s)}; 95 % of such runs take at most {age(most_s)}"
    longest_s = times["p99"] or 0.0
    if usual["runs"] >= _LEAST_RUNS_99 and took_s > longest_s:
        return f"open for {age(took_s)}; 99 % of such runs take at most {age(longest_s)}"
    return None


def unusual_runs(client: Client, typical: TypicalRuns, limit: int) -> list[MarkedRunDocument]:
    """Return the unusual ones of the oldest open runs, the dearest first."""
    wanted = RunFilter(statuses=_OPEN, oldest_first=True)
    rows, now_ms = client.queries.list_runs(wanted, _LOOKED_AT).entries, client.queries.now_ms()
    documents = [row_document(row, now_ms=now_ms) for row in rows]
    marked: list[MarkedRunDocument] = [
        {**run, "unusual": unusual}
        for run, unusual in zip(documents, typical.excesses(documents), strict=True)
        if unusual
    ]
    return sorted(marked, key=lambda run: -(run["usage"]["cost_usd"] or 0))[:limit]
