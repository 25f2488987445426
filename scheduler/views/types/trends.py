"""What charts show: numbers by the hour or the day."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from sleipnir.scheduler.client.limits.report import BudgetLine, PauseLine
from sleipnir.scheduler.runs.documents import FailureDocument, SpendFiguresDocument, about
from sleipnir.scheduler.views.types.batches import BatchProgressDocument
from sleipnir.scheduler.views.types.engine import FleetDocument
from sleipnir.scheduler.views.types.questions import AgedQuestionDocument, QuestionGroupDocument
from sleipnir.scheduler.views.types.records import ListedRunDocument, MarkedRunDocument


class SeriesDocument(TypedDict):
    name: Annotated[str | None, about("null: what has no name, such as runs of no batch")]
    others: Annotated[bool, about("whether these are all others together")]
    values: Annotated[list[float], about("one for each of `slots`")]


class CostRowDocument(SpendFiguresDocument):
    name: Annotated[str | None, about("null: what has no name, such as runs of no batch")]
    share: Annotated[float, about("of all that was spent, from 0 to 1")]
    before_usd: Annotated[float, about("spent in as many hours or days before")]
    runs: Annotated[int | None, about("that ended; null: counted by agent and batch only")]
    run_usd: Annotated[float | None, about("spent by each of these, on average")]


class ForecastDocument(TypedDict):
    """What becomes of today's spending if it goes on as in the last hour."""

    budget: Annotated[BudgetLine, about("of the day (UTC), which may have no limit")]
    hour_usd: Annotated[float, about("spent an hour at present")]
    day_usd: Annotated[float, about("spent by the end of the day")]
    out_at: Annotated[str | None, about("when the budget is used up; null: not today")]


class CostsDocument(TypedDict):
    period: Annotated[str, about("`24h`, `7d` or `30d`")]
    per: Annotated[str, about("`hour` or `day`")]
    by: Annotated[str, about("`agent`, `model`, `batch`, `node` or `label`")]
    label: Annotated[str | None, about("whose values the rows are; null: they are of no label")]
    labels: Annotated[list[str], about("by `label`: those of the runs, the dearest first")]
    slots: Annotated[list[str], about("when each hour or day begins; the last is under way")]
    until: Annotated[str, about("when the last one ends")]
    series: Annotated[list[SeriesDocument], about("dollars by the dearest names, then all others")]
    rows: Annotated[list[CostRowDocument], about("the dearest first")]
    total: SpendFiguresDocument
    before_usd: Annotated[float, about("spent in as many hours or days before")]
    today: ForecastDocument
    budgets: Annotated[list[BudgetLine], about("of runs, batches and the day, in dollars")]
    dearest: Annotated[list[ListedRunDocument], about("of the runs that ended, those stored")]


class EndedTrendDocument(TypedDict):
    per: Annotated[str, about("`hour` or `day`")]
    slots: Annotated[list[str], about("when each hour or day begins; the last is under way")]
    until: Annotated[str, about("when the last one ends")]
    series: Annotated[list[SeriesDocument], about("root runs that ended, by status")]
    runs: Annotated[dict[str, int], about("all of them, by status")]
    before: Annotated[dict[str, int], about("of as many hours or days before")]


class FailingGroupDocument(TypedDict):
    """Runs of an agent that failed alike."""

    agent: str
    cause: Annotated[str, about("finds those that failed alike")]
    count: int
    error: Annotated[FailureDocument, about("of the newest one")]
    run_id: Annotated[str, about("the newest one")]
    first_at: str
    newest_at: str
    by_hour: Annotated[list[int], about("of the last 24 hours, the current one last")]


class FailingDocument(TypedDict):
    groups: Annotated[list[FailingGroupDocument], about("the most frequent first")]
    grouped: Annotated[int, about("how many of the newest failures were grouped")]
    failed: Annotated[int | None, about("or timed out, of the runs created in 24 hours")]


class FailingBatchDocument(TypedDict):
    """A batch under way of which more than 5 % failed."""

    batch: str
    failed: Annotated[int, about("or timed out")]
    ended: Annotated[int, about("of its stored runs")]


class NowDocument(TypedDict):
    fleet: FleetDocument
    groups: Annotated[list[QuestionGroupDocument], about("of questions, the first of the inbox")]
    questions: Annotated[list[AgedQuestionDocument], about("the oldest ones")]
    failing: FailingDocument
    batches: Annotated[list[BatchProgressDocument], about("those under way")]
    failing_batches: list[FailingBatchDocument]
    unusual: Annotated[list[MarkedRunDocument], about("open runs, by cost, visits or time")]
    pauses: list[PauseLine]
    ended: Annotated[EndedTrendDocument, about("in the last 24 hours")]
    spent: Annotated[list[SeriesDocument], about("dollars in these hours, by agent")]
    queued: Annotated[list[int], about("messages of all queues in each minute of the last hour")]
    today: ForecastDocument
