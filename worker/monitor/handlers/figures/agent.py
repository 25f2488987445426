"""The charts of one agent's page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus

from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.scheduler.views.trends.agent import AgentTrends, agent_trends
from sleipnir.scheduler.views.trends.ended import STATUSES
from sleipnir.worker.monitor.charts.over_time import Chart, Series, over_time, spark
from sleipnir.worker.monitor.formats import money, span, word

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.documents import RecentSpendingDocument
    from sleipnir.worker.monitor.site import Site

_SHARES = (("half below", 0.5), ("95 % below", 0.95))


def overview_of(site: Site, agent: str, spent: RecentSpendingDocument) -> dict[str, Any]:
    """Return what the tab Overview of an agent shows, for its template."""
    trends = agent_trends(site.client, site.typical, agent)
    times = _lines(trends, "How long runs took, by day", span, lambda day, share: day.took_s(share))
    costs = _lines(trends, "What runs cost, by day", money, lambda day, share: day.cost_usd(share))
    return {
        "ended": sum(day.total for day in trends.days),
        "ended_chart": over_time(_ended(trends, agent), site.prefix),
        "times_chart": over_time(times),
        "costs_chart": over_time(costs) if any(day.costs.total() for day in trends.days) else None,
        "spent_chart": over_time(_spent(trends, spent, agent), site.prefix),
        "failing": masked_texts(trends.failing),
        "last_runs": masked_texts(trends.runs),
        "spark": spark,
    }


def _ended(trends: AgentTrends, agent: str) -> Chart:
    series = [
        Series(word(str(status)), f"state-{status}", [day.runs[status] for day in trends.days])
        for status in STATUSES
        if any(day.runs[status] for day in trends.days)
    ]
    return _columns(trends, "Runs that ended, by day", series, agent)


def _spent(trends: AgentTrends, spent: RecentSpendingDocument, agent: str) -> Chart:
    by_day = {row["day"]: row["cost_usd"] for row in spent["days"]}
    costs = [by_day.get(start[:10], 0.0) for start in trends.window.starts()]
    chart = _columns(trends, "Spent by day", [Series("spent", "series-1", costs)], agent)
    return replace(chart, text=money, has_whole_numbers=False)


def _columns(trends: AgentTrends, title: str, series: Sequence[Series], agent: str) -> Chart:
    return Chart(
        title=title,
        per="day",
        starts=trends.window.starts(),
        until=trends.window.ends(),
        series=series,
        address=f"/runs?agent={quote_plus(agent)}&since={{since}}&until={{until}}",
    )


def _lines(
    trends: AgentTrends,
    title: str,
    text: Callable[[float], str],
    number: Callable[[Any, float], float | None],
) -> Chart:
    return Chart(
        title=title,
        per="day",
        starts=trends.window.starts(),
        until=trends.window.ends(),
        series=[
            Series(label, f"series-{at}", [number(day, share) for day in trends.days])
            for at, (label, share) in enumerate(_SHARES, 1)
        ],
        text=text,
        has_whole_numbers=False,
        lines=True,
    )
