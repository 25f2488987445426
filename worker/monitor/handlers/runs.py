"""The list of runs."""

from __future__ import annotations

from sleipnir.scheduler.errors import AmbiguousRun, RunNotFound
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.runs.time_bounds import parse_time_bound
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.runs import runs_overview
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request

_LIMIT = 50
_MOST = 200


class RunsHandler(MonitorHandler):
    """What pages and API share: the filters are the query's parameters."""

    async def documents(self) -> Document:
        """The page of the list that the query asks for."""
        now_ms = await self.site.call(self.site.client.queries.now_ms)
        return await self.site.call(
            runs_overview,
            self.site.client,
            self.wanted(now_ms),
            limit=self.number_argument("limit", _LIMIT, _MOST),
            cursor=self.text_argument("cursor"),
        )

    def wanted(self, now_ms: int) -> RunFilter:
        """The filter that the query's parameters mean."""
        labels = [text.partition("=") for text in self.get_query_arguments("label") if text]
        if any(not separator for _, separator, _ in labels):
            raise bad_request("label takes NAME=VALUE")
        return RunFilter(
            statuses=frozenset(map(_status, filter(None, self.get_query_arguments("status")))),
            agents=tuple(filter(None, self.get_query_arguments("agent"))),
            batch=self.text_argument("batch"),
            labels=tuple((name, value) for name, _, value in labels),
            since_ms=self._instant("since", now_ms),
            until_ms=self._instant("until", now_ms),
            children=self.text_argument("children") == "1",
        )

    def _instant(self, name: str, now_ms: int) -> int | None:
        text = self.text_argument(name)
        try:
            return None if text is None else parse_time_bound(text).at(now_ms)
        except ValueError as error:
            raise bad_request(f"{name}: {error}") from error


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


def _status(text: str) -> Status:
    try:
        return Status(text)
    except ValueError:
        raise bad_request(f"'{text}' is not a status; there are {', '.join(Status)}") from None
