"""The list of runs."""

from __future__ import annotations

import re

from sleipnir.scheduler.errors import AmbiguousRun, RunNotFound
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.runs import runs_overview
from sleipnir.scheduler.views.text.tables import runs as run_table
from sleipnir.worker.monitor.conditions import RunConditions, number_of
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.masked import masked_texts

_LIMIT = 50
_MOST = 200
_ID_PREFIX = re.compile("[0-9a-f]{4,16}")


class RunsHandler(MonitorHandler):
    """Shared by pages and API; the filters are query parameters."""

    async def documents(self) -> Document:
        """Return the page of the list that the query asks for."""
        self.require_known([*RunConditions.model_fields, "limit", "cursor"])
        found = await self.site.call(
            runs_overview,
            self.site.client,
            await self.wanted(),
            self.site.typical,
            limit=self.number_argument("limit", _LIMIT, _MOST),
            cursor=self.text_argument("cursor"),
        )
        return masked_texts(found)

    @property
    def conditions(self) -> RunConditions:
        """The conditions in the query's parameters."""

        def several(name: str) -> list[str]:
            return list(filter(None, self.get_query_arguments(name)))

        cost = self.text_argument("cost")
        fields = {
            "status": several("status"),
            "agent": several("agent"),
            "batch": self.text_argument("batch"),
            "label": several("label"),
            "since": self.text_argument("since"),
            "until": self.text_argument("until"),
            "children": self.flag_argument("children"),
            "q": self.text_argument("q"),
            "cause": self.text_argument("cause"),
            "cost": None if cost is None else number_of("cost", cost),
            "took": self.text_argument("took"),
            "order": self.text_argument("order") or "newest",
        }
        return RunConditions.of(fields)

    async def wanted(self) -> RunFilter:
        """Return the filter that the conditions mean now."""
        return await self.site.call(self.conditions.filter, self.site.client)


class RunsPage(RunsHandler):
    """The list of runs; searching for a prefix of an id leads to its run."""

    async def get(self) -> None:
        if run_id := await self._named():
            self.redirect(f"/runs/{run_id}")
            return
        listed = await self.documents()
        if self.wants == "json":
            self.give_json(listed)
            return
        if self.wants == "text":
            self.give_lines(run_table.lines_of(listed["runs"], fit=False))
            return
        chosen = self.get_query_arguments("status")
        here = await self.site.call(self.site.client.search.names)
        self.give_page(
            "runs.html",
            agents=sorted({*here, *(run["agent"] for run in listed["runs"])}),
            tab="runs",
            title="Runs",
            topics="inbox,runs",
            listed=listed,
            chips=[(status, listed["counts"].get(status)) for status in _CHIPS],
            chosen=chosen,
            status_query=self._status_query,
            argument=self.text_argument,
            is_filtered=bool(set(self.request.query_arguments) - {"cursor", "limit"}),
            may_act_on_all=not self.conditions.is_empty,
            is_first=self.text_argument("cursor") is None,
        )

    async def _named(self) -> str | None:
        """Return the run whose id begins with the search text, if there is exactly one."""
        text = self.text_argument("q")
        if text is None or not _ID_PREFIX.fullmatch(text.strip()):
            return None
        try:
            found = await self.site.call(self.site.client.queries.resolve, text.strip())
        except (RunNotFound, AmbiguousRun):
            return None
        return str(found)

    def _status_query(self, status: str) -> str:
        """Return this list's address with a status added or removed."""
        chosen = self.get_query_arguments("status")
        is_on = chosen == [status]
        return self.with_query(status=None if is_on else status, cursor=None)


_CHIPS = tuple(map(str, Status))
