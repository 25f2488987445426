"""What model calls have cost, and how runs ended, for programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, ClassVar

from sleipnir.scheduler.client import Client, endings, spending
from sleipnir.scheduler.runs.time_bounds import parse_day
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request

_KNOWN = ("by", "since", "until", "agent", "batch")


class _ByNames(MonitorHandler):
    """Answers a query of the client by names, such as days."""

    names: ClassVar[Sequence[str]]
    query: ClassVar[Callable[..., Any]]

    async def get(self) -> None:
        self.require_known(_KNOWN)
        client = self.site.client
        now_ms = await self.site.call(client.queries.now_ms)
        asked = dict.fromkeys(self.get_query_arguments("by"))
        for name in asked:
            if name not in self.names:
                raise bad_request(f"by must be one of {', '.join(self.names)}")
        since, until = self._day("since", now_ms), self._day("until", now_ms)
        if since and until and since > until:
            raise bad_request("since is after until")
        found = await self.site.call(
            type(self).query,
            client,
            tuple(name for name in self.names if name in asked) or ("day",),
            since=since,
            until=until,
            agent=self.text_argument("agent"),
            batch=self.text_argument("batch"),
        )
        self.give_json(masked_texts(found.to_json()))

    def _day(self, name: str, now_ms: int) -> date | None:
        text = self.text_argument(name)
        try:
            return None if text is None else parse_day(text, now_ms)
        except ValueError as error:
            raise bad_request(f"{name}: {error}") from error


class SpendApi(_ByNames):
    """GET /api/v1/spend"""

    names, query = spending.BY, Client.spend


class StatsApi(_ByNames):
    """GET /api/v1/stats"""

    names, query = endings.BY, Client.ended
