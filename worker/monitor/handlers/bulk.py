"""Acts on many runs: those selected, or all that a filter matches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sleipnir.scheduler.client.rerun.agents import CURRENT, SAME
from sleipnir.scheduler.client.rerun.many import (
    MOST_SELECTED,
    RunSelection,
    select,
    select_named,
    select_open,
)
from sleipnir.scheduler.client.rerun.retry import RetryRequest
from sleipnir.scheduler.views import versions
from sleipnir.scheduler.views.again.places import many_again_document, spent_text
from sleipnir.scheduler.views.documents import Document
from sleipnir.worker.monitor.bodies import BulkBody
from sleipnir.worker.monitor.bulk import ActName, BulkAct
from sleipnir.worker.monitor.conditions import RunConditions
from sleipnir.worker.monitor.formats import money
from sleipnir.worker.monitor.handlers.acts import (
    CANCEL_REASON,
    MOST_REASON,
    ActingHandler,
    told_of_retry,
)
from sleipnir.worker.monitor.handlers.arguments import whole_number
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.handlers.runs import RunsHandler
from sleipnir.worker.monitor.problems import Problem, Refused

# With more runs, the user has to type their number.
_MANY = 100
# Whose current versions are shown.
_MOST_AGENTS = 5
# How far the number of runs may differ from the expected one, as a fraction.
_TOLERANCE = 0.05


class BulkActHandler(ActingHandler, RunsHandler):
    """Shared by the page and the API."""

    async def matching(self, act: ActName, conditions: RunConditions) -> RunSelection:
        """Return the matching runs to which the act can be applied.

        Raises:
            Refused: there is no condition, or too many runs match.
        """
        if conditions.is_empty:
            raise bad_request("an act on all that match takes at least one condition")
        client = self.site.client
        queries = client.queries
        wanted = await self.site.call(conditions.filter, client)
        choose = select_open if act == "cancel" else select
        found: RunSelection = await self.site.call(choose, queries, wanted)
        if not found.is_whole:
            raise bad_request(f"more than {MOST_SELECTED:,} runs match; narrow the filter")
        return found

    def begin(
        self, act: ActName, run_ids: Sequence[str], reason: str, request: RetryRequest
    ) -> BulkAct:
        """Start the act; each run is recorded with its outcome."""
        if not run_ids:
            raise bad_request("no run is selected, or none matches")
        note = self.audit_entry(act, reason if act == "cancel" else told_of_retry(request))
        return self.site.bulk.start(act, run_ids, reason or CANCEL_REASON, request, note)


def require_expected(found: int, expected: int) -> None:
    """Check that as many runs match as the user has seen.

    Raises:
        Refused: considerably more or fewer match.
    """
    if abs(found - expected) > _TOLERANCE * expected:
        message = f"{found:,} runs match now, not {expected:,}"
        raise Refused(Problem(409, "changed", message, details={"found": found}))


class BulkApi(BulkActHandler):
    """POST /api/v1/bulk"""

    async def post(self) -> None:
        body = BulkBody.of(self.json_body())
        if (body.filter is None) == (not body.ids):
            raise bad_request("the body must have one of ids and filter")
        run_ids: Sequence[str] = list(dict.fromkeys(body.ids))
        if body.filter is not None:
            if body.expect is None:
                raise bad_request("a filter takes the number of runs that it finds, `expect`")
            run_ids = (await self.matching(body.act, body.filter)).run_ids
            require_expected(len(run_ids), body.expect)
        self.set_status(202)
        request = RetryRequest(body.from_step, agent=body.agent)
        self.give_json(self.begin(body.act, run_ids, body.reason, request).to_json())


class AgainApi(BulkActHandler):
    """GET /api/v1/bulk/again"""

    known = ()

    async def get(self) -> None:
        found = await self.matching("retry", self.conditions)
        self.give_json(await self.site.call(many_again_document, self.site.client, found.run_ids))


class BulkPage(BulkActHandler):
    """POST /bulk: shows the runs it would affect, and starts once that is confirmed.

    `act` is for the selected runs; `all` for those that the query's filter matches.
    """

    async def post(self) -> None:
        is_all = bool(self.get_body_argument("all", ""))
        act = _act_of(self.get_body_argument("all" if is_all else "act", ""))
        reason = self.get_body_argument("reason", "").strip()
        if len(reason) > MOST_REASON:
            raise bad_request(f"the reason is longer than {MOST_REASON} characters")
        found = await self._selected(act, is_all=is_all)
        confirmed = self.get_body_argument("confirmed", None)
        if confirmed is None:
            await self._ask(act, found, is_all=is_all)
            return
        if is_all:
            require_expected(len(found.run_ids), whole_number("confirmed", confirmed))
        typed = self.get_body_argument("typed", "").replace(",", "").strip()
        if len(found.run_ids) > _MANY and typed != confirmed:
            self.set_status(422)
            await self._ask(act, found, is_all=is_all, problem="Type the number of runs.")
            return
        agent = self.get_body_argument("agent", SAME)
        if agent not in (SAME, CURRENT):
            raise bad_request("agent must be same or current")
        step = self.get_body_argument("from_step", "")
        from_step = whole_number("from_step", step, 1) if step else None
        request = RetryRequest(from_step, agent=agent)
        begun = self.begin(act, found.run_ids, reason, request)
        self.redirect(f"/bulk/{begun.bulk_id}", status=303)

    async def _selected(self, act: ActName, *, is_all: bool) -> RunSelection:
        if is_all:
            return await self.matching(act, self.conditions)
        marked = list(dict.fromkeys(self.get_body_arguments("run")))[:MOST_SELECTED]
        found: RunSelection = await self.site.call(select_named, self.site.client.queries, marked)
        return found

    async def _ask(
        self, act: ActName, found: RunSelection, *, is_all: bool, problem: str | None = None
    ) -> None:
        newest = {cause.agent: cause.example for cause in reversed(found.causes)}
        agents = list(newest) if act == "retry" else []
        changes = {name: await self._changes(newest[name]) for name in agents[:_MOST_AGENTS]}
        repeated = found.run_ids if act == "retry" else ()
        again = await self.site.call(many_again_document, self.site.client, repeated)
        self.give_page(
            "bulk_confirm.html",
            changes=changes,
            again=again,
            spent=partial(spent_text, again, money=money),
            more_agents=len(agents) > _MOST_AGENTS,
            tab="runs",
            title=f"{act.title()} runs",
            act=act,
            found=found,
            is_all=is_all,
            must_type=len(found.run_ids) > _MANY,
            most_reason=MOST_REASON,
            problem=problem,
        )

    async def _changes(self, run_id: str) -> Document:
        """Return what retrying a run with its agent as it is now would change."""
        client = self.site.client
        run = await self.site.call(client.queries.run, run_id)
        document = await self.site.call(versions.retry_document, client, run)
        masked: Document = await self.site.call(self.site.masks.masked, document, run)
        return masked


class BulkProgressHandler(MonitorHandler):
    """The progress of an act on many runs."""

    async def get(self, bulk_id: str) -> None:
        found = self.site.bulk.find(bulk_id)
        if found is None:
            message = f"this monitor has begun no act '{bulk_id}' lately; the audit log has it"
            raise Refused(Problem(404, "not_found", message))
        document: dict[str, Any] = found.to_json()
        if self.wants == "json":
            self.give_json(document)
            return
        topics = "inbox" if found.is_over else f"inbox,bulk:{bulk_id}"
        title = f"{found.act.title()} {found.total:,} runs"
        self.give_page("bulk.html", tab="runs", title=title, topics=topics, bulk=document)


def _act_of(text: str) -> ActName:
    if text == "cancel":
        return "cancel"
    if text == "retry":
        return "retry"
    raise bad_request("act must be cancel or retry")
