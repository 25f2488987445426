"""A cache of agents' typical durations and costs, which many pages show beside runs."""

from __future__ import annotations

from collections import OrderedDict
from time import monotonic
from typing import TYPE_CHECKING

from sleipnir.scheduler.views import agents
from sleipnir.scheduler.views.documents import Document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

_KEPT_S = 60.0
_MOST_AGENTS = 200


class TypicalRuns:
    """Typical figures by agent, at most a minute old. Concurrent reads do no harm."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[str, tuple[float, Document]] = OrderedDict()

    def of(self, agent: str) -> Document:
        """Return the typical figures of an agent, as `typical_document`."""
        read_at, known = self._kept.get(agent, (0.0, {}))
        if known and monotonic() - read_at < _KEPT_S:
            return known
        runs = agents.newest_runs(self._client, agent)
        found = agents.typical_document(runs, self._client.queries.now_ms())
        self._kept[agent] = (monotonic(), found)
        while len(self._kept) > _MOST_AGENTS:
            self._kept.popitem(last=False)
        return found
