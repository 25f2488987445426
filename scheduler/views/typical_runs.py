"""What runs of an agent usually take and cost: beside each run, so read once for many pages."""

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
    """By agent; of a minute ago at most. Threads may read the same at once, which does no harm."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._kept: OrderedDict[str, tuple[float, Document]] = OrderedDict()

    def of(self, agent: str) -> Document:
        """What is usual for an agent, as `typical_document` tells it."""
        read_at, known = self._kept.get(agent, (0.0, {}))
        if known and monotonic() - read_at < _KEPT_S:
            return known
        runs = agents.newest_runs(self._client, agent)
        found = agents.typical_document(runs, self._client.queries.now_ms())
        self._kept[agent] = (monotonic(), found)
        while len(self._kept) > _MOST_AGENTS:
            self._kept.popitem(last=False)
        return found
