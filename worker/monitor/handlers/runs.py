"""The list of runs."""

from __future__ import annotations

from sleipnir.scheduler.errors import AmbiguousRun, RunNotFound
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.runs import runs_overview
from sleipnir.worker.monitor.conditions import RunConditions
from sleipnir.worker.monitor.handlers.base import MonitorHandler

_LIMIT = 50
_MOST = 200


class RunsHandler(MonitorHandler):
    """What pages and API share: the filters are the query's parameters."""

    async def documents(self) -> Document:
        """The page of the list that the query asks for."""
        return await self.site.call(
            runs_overview,
            self.site.client,
            await self.wanted(),
            limit=self.number_argument("limit", _LIMIT, _MOST),
            cursor=self.text_argument("cursor"),
        )

    @property
    def conditions(self) -> RunConditions:
        """Those of the query's parameters."""

        def several(name: str) -> list[str]:
            return list(filter(None, self.get_query_arguments(name)))

        return RunConditions(
            status=several("status"),
            agent=several("agent"),
            batch=self.text_argument("batch"),
            label=several("label"),
            since=self.text_argument("since"),
            until=self.text_argument("until"),
            children=self.text_argument("children") == "1",
        )

    async def wanted(self) -> RunFilter:
        """The filter that they mean now."""
        return self.conditions.filter(await self.site.call(self.site.client.queries.now_ms))


class RunsPage(RunsHandler):
    """The page; a search for the beginning of an id leads to its run."""

    async def get(self) -> None:
        message = None
        prefix = self.text_argument("q")
        if prefix is not None:
            try:
                found = await self.site.call(self.site.client.queries.resolve, prefix.strip())
            except (RunNotFound, AmbiguousRun) as error:
                message = str(error)
            else:
                self.redirect(f"/runs/{found}")
                return
        listed = await self.documents()
        if self.wants == "json":
            self.give_json(listed)
            return
        chosen = self.get_query_arguments("status")
        self.give_page(
            "runs.html",
            tab="runs",
            title="Runs",
            topics="inbox,runs",
            listed=listed,
            chips=[(status, listed["counts"].get(status)) for status in _CHIPS],
            chosen=chosen,
            status_query=self._status_query,
            argument=self.text_argument,
            is_filtered=bool(set(self.request.query_arguments) - {"cursor", "limit", "q"}),
            may_act_on_all=not self.conditions.is_empty,
            is_first=self.text_argument("cursor") is None,
            prefix=prefix,
            message=message,
        )

    def _status_query(self, status: str) -> str:
        """This list with a status more, or without it."""
        chosen = self.get_query_arguments("status")
        is_on = chosen == [status]
        return self.with_query(status=None if is_on else status, cursor=None, q=None)


_CHIPS = tuple(map(str, Status))
