"""What charts show: numbers by the hour or the day."""

from __future__ import annotations

from typing import Annotated

from typing_extensions import TypedDict

from sleipnir.scheduler.client.limits.report import BudgetLine
from sleipnir.scheduler.runs.documents import SpendFiguresDocument, about
from sleipnir.scheduler.views.types.records import ListedRunDocument


class SeriesDocument(TypedDict):
    name: Annotated[str | None, about("null: what has no name, such as runs of no batch")]
    others: Annotated[bool, about("whether these are all others together")]
    values: Annotated[list[float], about("one for each of `slots`")]


class CostRowDocument(SpendFiguresDocument):
    name: Annotated[str | None, about("null: what has no name, such as runs of no batch")]
    share: Annotated[float, about("of all that was spent, from 0 to 1")]
    before_usd: Annotated[float, about("spent in as many hours or days before")]
    runs: Annotated[int | None, about("that ended; null: not counted by model or node")]
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
    by: Annotated[str, about("`agent`, `model`, `batch` or `node`")]
    slots: Annotated[list[str], about("when each hour or day begins; the last is under way")]
    until: Annotated[str, about("when the last one ends")]
    series: Annotated[list[SeriesDocument], about("dollars by the dearest names, then all others")]
    rows: Annotated[list[CostRowDocument], about("the dearest first")]
    total: SpendFiguresDocument
    before_usd: Annotated[float, about("spent in as many hours or days before")]
    today: ForecastDocument
    budgets: Annotated[list[BudgetLine], about("of runs, batches and the day, in dollars")]
    dearest: Annotated[list[ListedRunDocument], about("of the runs that ended, those stored")]
