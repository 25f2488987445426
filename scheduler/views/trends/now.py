"""The first page: what needs people, what fails, what is under way or unusual, what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.scheduler.store.figures.by_time import SpendingByTime
from sleipnir.scheduler.views.batches import batches_overview
from sleipnir.scheduler.views.engine import fleet_document
from sleipnir.scheduler.views.limits import limits_document
from sleipnir.scheduler.views.questions import groups_document, inbox_page
from sleipnir.scheduler.views.trends.costs import cost_series, forecast
from sleipnir.scheduler.views.trends.ended import ended_document
from sleipnir.scheduler.views.trends.failing import failing_document
from sleipnir.scheduler.views.trends.windows import window_of
from sleipnir.scheduler.views.typical_runs import unusual_runs

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import trends as types
    from sleipnir.scheduler.views.types.batches import BatchProgressDocument
    from sleipnir.scheduler.views.typical_runs import TypicalRuns

_QUESTIONS = 5
# Those that can be answered in place, if nobody else asks the same.
_OLDEST = 10
_FAILING = 5
_BATCHES = 5
# Of the newest batches, those that are under way are told.
_NEWEST_BATCHES = 20
_UNUSUAL = 5
# The share of a batch's ended runs that may fail without being told.
_MOST_FAILED = 0.05


def now_document(client: Client, typical: TypicalRuns, user: str) -> types.NowDocument:
    """Return what a person wants to know first."""
    now_ms = client.queries.now_ms()
    hours = window_of(now_ms, "24h")
    limits = limits_document(client)
    newest = batches_overview(client, limit=_NEWEST_BATCHES)["batches"]
    batches = [each for each in newest if each["open"] or each["waiting"]]
    spent = hours.sums(SpendingByTime(client.store.client, client.store.past_sums), ("agent",))
    fleet = fleet_document(client)
    return {
        "fleet": fleet,
        "groups": groups_document(client.queries, user)["groups"][:_QUESTIONS],
        "questions": inbox_page(client.queries, user, limit=_OLDEST)["questions"],
        "failing": failing_document(client, now_ms, _FAILING),
        "batches": batches[:_BATCHES],
        "failing_batches": [*filter(_fails, map(_ended_in, batches))][:_BATCHES],
        "unusual": unusual_runs(client, typical, _UNUSUAL),
        "pauses": limits["pauses"],
        "ended": ended_document(client, hours),
        "spent": cost_series(hours, spent),
        "queued": [number or 0 for number in fleet["last_hour"]["queued"]],
        "today": forecast(client, limits["today"], now_ms),
    }


def _ended_in(batch: BatchProgressDocument) -> types.FailingBatchDocument:
    failed = batch["failed"] + batch["timed_out"]
    ended = failed + batch["succeeded"] + batch["cancelled"]
    return {"batch": batch["batch"], "failed": failed, "ended": ended}


def _fails(batch: types.FailingBatchDocument) -> bool:
    return batch["failed"] > _MOST_FAILED * batch["ended"]
