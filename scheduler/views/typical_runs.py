"""What is usual for an agent's runs, cached as many pages show it; and open runs that exceed it."""

from __future__ import annotations

from collections import OrderedDict
from time import monotonic
from typing import TYPE_CHECKING

from sleipnir.scheduler.limits.money import dollars
from sleipnir.scheduler.runs.model import FINAL, Status
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views import agents
from sleipnir.scheduler.views.documents import row_document
from sleipnir.scheduler.views.text.formatting import age

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types.agents import TypicalDocument
    from sleipnir.scheduler.views.types.records import MarkedRunDocument, RunRowDocument

_KEPT_S = 60.0
_MOST_AGENTS = 200
# So many times what 95 % of its agent's runs stay below; of steps, which vary less, fewer.
_TIMES = 5
_TIMES_STEPS = 3
# Fewer ended runs do not tell what is usual.
_LEAST_RUNS = 5
# Fewer steps are never unusual; as many always are, if nothing is known of the agent.
_FEW_STEPS = 50
# Nor is a shorter time.
_SHORT_S = 60.0
_MANY_STEPS = 1_000
# Open runs that are looked at, the oldest first.
_LOOKED_AT = 200
_OPEN = frozenset(Status) - FINAL


class TypicalRuns:
    """Typical figures by agent, at most a minute old. Concurrent reads do no harm."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[str, tuple[float, TypicalDocument]] = OrderedDict()

    def of(self, agent: str) -> TypicalDocument:
        """Return the typical figures of an agent, as `typical_document`."""
        read_at, known = self._kept.get(agent, (0.0, None))
        if known is not None and monotonic() - read_at < _KEPT_S:
            return known
        runs = agents.newest_runs(self._client, agent)
        found = agents.typical_document(runs, self._client.queries.now_ms())
        self._kept[agent] = (monotonic(), found)
        while len(self._kept) > _MOST_AGENTS:
            self._kept.popitem(last=False)
        return found

    def known(self, agent: str) -> TypicalDocument | None:
        """Return what was read of an agent, however long ago; None if nothing was."""
        return self._kept.get(agent, (0.0, None))[1]

    def excess_of(self, run: RunRowDocument) -> str | None:
        """Return a sentence on how an open run exceeds what is usual for its agent, or None."""
        cost, steps = run["usage"]["cost_usd"] or 0.0, run["step"]
        took_s = run["elapsed_s"] or 0.0
        is_short = took_s < _SHORT_S
        if run["status"] not in _OPEN or (not cost and steps < _FEW_STEPS and is_short):
            return None
        usual = self.of(run["agent"])
        if usual["runs"] < _LEAST_RUNS:
            return f"{steps:,} steps" if steps >= _MANY_STEPS else None
        most_cost, most_steps = usual["cost_usd"]["p95"] or 0.0, usual["steps"]["p95"] or 0.0
        if most_cost and cost > _TIMES * most_cost:
            return f"cost {dollars(cost)}; 95 % of such runs cost less than {dollars(most_cost)}"
        if steps >= _FEW_STEPS and steps > _TIMES_STEPS * most_steps:
            return f"{steps:,} steps; 95 % of such runs take at most {most_steps:,}"
        most_s = usual["elapsed_s"]["p95"] or 0.0
        if most_s and not is_short and took_s > _TIMES * most_s:
            return f"open for {age(took_s)}; 95 % of such runs take at most {age(most_s)}"
        return None


def unusual_runs(client: Client, typical: TypicalRuns, limit: int) -> list[MarkedRunDocument]:
    """Return the unusual ones of the oldest open runs, the dearest first."""
    wanted = RunFilter(statuses=_OPEN, oldest_first=True)
    rows, now_ms = client.queries.list_runs(wanted, _LOOKED_AT).entries, client.queries.now_ms()
    documents = (row_document(row, now_ms=now_ms) for row in rows)
    marked: list[MarkedRunDocument] = [
        {**run, "unusual": unusual} for run in documents if (unusual := typical.excess_of(run))
    ]
    return sorted(marked, key=lambda run: -(run["usage"]["cost_usd"] or 0))[:limit]
