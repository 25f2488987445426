"""What model calls have cost, for programs."""

from __future__ import annotations

from datetime import date

from sleipnir.scheduler.client.spending import BY
from sleipnir.scheduler.runs.time_bounds import parse_day
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.masked import masked_texts

_KNOWN = ("by", "since", "until", "agent", "batch")


class SpendApi(MonitorHandler):
    """GET /api/v1/spend"""

    async def get(self) -> None:
        self.require_known(_KNOWN)
        client = self.site.client
        now_ms = await self.site.call(client.queries.now_ms)
        asked = dict.fromkeys(self.get_query_arguments("by"))
        for name in asked:
            if name not in BY:
                raise bad_request(f"by must be one of {', '.join(BY)}")
        found = await self.site.call(
            client.spend,
            tuple(name for name in BY if name in asked) or ("day",),
            since=self._day("since", now_ms),
            until=self._day("until", now_ms),
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
