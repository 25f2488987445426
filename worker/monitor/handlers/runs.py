"""The list of runs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar, NamedTuple
from urllib.parse import urlencode

from sleipnir.scheduler.errors import AmbiguousRun, RunNotFound
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.people.saved_views import SavedViews
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.store.queries.totals import OpenRuns
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.runs import runs_overview
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.scheduler.views.text.tables import runs as run_table
from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.charts.gauge import gauge_svg
from sleipnir.worker.monitor.conditions import RunConditions, number_of
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.pages.run_columns import COLUMNS, ORDERS, Columns, ordered
from sleipnir.worker.monitor.problems import bad_request

_LIMIT = 50
_MOST = 200
_ROWS = 60  # of a page
# Agents whose usual figures are read for the next look at the page.
_MOST_AGENTS = 5
_ID_PREFIX = re.compile("[0-9a-f]{4,16}")


class RunsHandler(MonitorHandler):
    """Shared by pages and API; the filters are query parameters."""

    # Parameters of a page, beside the conditions.
    known: ClassVar[tuple[str, ...]] = ("limit", "cursor")

    async def documents(self, limit: int = _LIMIT) -> Document:
        """Return the page of the list that the query asks for; `limit` is the default."""
        self.require_known([*RunConditions.model_fields, *self.known])
        found = await self.site.call(
            runs_overview,
            self.site.client,
            await self.wanted(),
            self.site.typical,
            limit=self.number_argument("limit", limit, _MOST),
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

    known = ("limit", "cursor", "cols", "sort")

    async def get(self) -> None:
        if run_id := await self._named():
            self.redirect(f"/runs/{run_id}")
            return
        sort = self.choice_argument("sort", ["", *ORDERS], "") or None
        columns = self._columns()
        # Of more runs, the most expensive ones are worth more.
        listed = await self.documents(_MOST if sort else _ROWS)
        if self.wants == "json":
            self.give_json(listed)
            return
        if self.wants == "text":
            self.give_lines(run_table.lines_of(listed["runs"], fit=False))
            return
        here = await self.site.call(self.site.client.search.names)
        runs = ordered(listed["runs"], sort)[:_ROWS]
        saved = SavedViews(self.site.client.store.client)
        self.give_page(
            "runs.html",
            agents=sorted({*here, *(run["agent"] for run in listed["runs"])}),
            tab="runs",
            title="Runs",
            topics="inbox,runs",
            listed=listed,
            runs=runs,
            views=await self.site.call(saved.of, self.user),
            this_query=self.with_query(cursor=None, limit=None).partition("?")[2],
            p95=self._usual({run["agent"] for run in runs}),
            columns=columns,
            all_columns=COLUMNS,
            orders=ORDERS,
            gauge_svg=gauge_svg,
            sort=sort,
            looked_at=len(listed["runs"]),
            chips=self._chips(listed["counts"], await self._open_runs(listed["counts_all"])),
            chosen=self.get_query_arguments("status"),
            applied=self._applied(),
            argument=self.text_argument,
            is_filtered=bool(set(self.request.query_arguments) - set(self.known)),
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

    def _columns(self) -> Columns:
        try:
            return Columns.of(self.text_argument("cols"))
        except ValueError as error:
            raise bad_request(str(error)) from None

    def _usual(self, agents: Collection[str]) -> Mapping[str, float]:
        """Return what 95 % of the runs of agents take, in s, as far as it is known by now."""
        typical = self.site.typical
        known = {agent: typical.known(agent) for agent in agents}
        unknown = sorted(agent for agent, found in known.items() if found is None)
        for agent in unknown[:_MOST_AGENTS]:
            self.site.begin(typical.of, agent)
        return {
            agent: p95
            for agent, found in known.items()
            if found is not None and (p95 := found["elapsed_s"]["p95"])
        }

    async def _open_runs(self, are_all: bool) -> OpenRuns | None:
        """Return the two kinds of what is open, once it is chosen and the counts are of all."""
        if not set(_OPEN) & set(self.get_query_arguments("status")):
            return None
        if not are_all and (self.conditions.agent or self.conditions.batch):
            return None
        return await self.site.call(self.site.client.queries.open_runs)

    def _chips(self, counts: Mapping[str, int], opened: OpenRuns | None) -> list[StatusChip]:
        """Return the states to choose from; of what is open, the two kinds once it is chosen."""
        chosen = self.get_query_arguments("status")
        kinds = [_OPEN, *(_KINDS_OF_OPEN if set(chosen) & set(_OPEN) else [])]
        kinds += [[str(status)] for status in Status if status not in _OPEN]
        numbers = dict(counts)
        if opened is not None:
            numbers |= {"queued": opened.queued, "running": opened.running}
        return [
            StatusChip(
                look="running" if kind == _OPEN else kind[0],
                label="open" if kind == _OPEN else formats.word(kind[0]),
                number=numbers.get("open" if kind == _OPEN else kind[0]),
                is_exact=opened is None or opened.is_exact or kind not in _KINDS_OF_OPEN,
                address=self._with(status=[] if chosen == kind else kind),
                is_chosen=chosen == kind,
            )
            for kind in kinds
        ]

    def _with(self, **changes: Sequence[str]) -> str:
        """Return this list's address from its beginning, with other values of some parameters."""
        kept = self.with_query(cursor=None, **dict.fromkeys(changes)).partition("?")[2]
        given = urlencode(changes, doseq=True)
        query = "&".join(filter(None, (kept, given)))
        return f"?{query}" if query else self.request.path

    def _applied(self) -> list[tuple[str, str, str]]:
        """Return the conditions that hold: name, value, and the address of the list without it."""
        found = []
        for name in set(RunConditions.model_fields) - {"status", "order"}:
            values = self.get_query_arguments(name)
            for value in filter(None, values):
                others = [each for each in values if each != value]
                found.append((name, value, self._with(**{name: others})))
        return sorted(found)


class StatusChip(NamedTuple):
    """A choice of states."""

    look: str
    label: str
    number: int | None
    is_exact: bool
    address: str
    is_chosen: bool


_OPEN = [str(Status.QUEUED), str(Status.RUNNING)]
_KINDS_OF_OPEN = [[each] for each in _OPEN]
