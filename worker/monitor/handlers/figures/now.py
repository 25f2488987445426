"""The first page."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.scheduler.views.trends.now import now_document
from sleipnir.worker.monitor.charts.over_time import Chart, Series, over_time, spark
from sleipnir.worker.monitor.formats import money, word
from sleipnir.worker.monitor.handlers.engine import DocumentHandler

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.questions import (
        AgedQuestionDocument,
        QuestionGroupDocument,
    )
    from sleipnir.scheduler.views.types.trends import EndedTrendDocument, NowDocument

# A budget that is much more than what is spent would make that invisible.
_MOST_OF_BUDGET: Final = 3


class NowHandler(DocumentHandler):
    """/now and /api/v1/now"""

    tab, title = "now", "Now"

    async def get(self) -> None:
        site = self.site
        found = await site.call(now_document, site.client, site.typical, self.user)
        document = masked_texts(found)
        ended = document["ended"]
        self.give(
            document,
            topics="inbox,runs,fleet",
            ended_chart=over_time(ended_chart(ended), site.prefix),
            spent_chart=over_time(_spent_chart(document), site.prefix),
            all_by_hour=_added(ended, *ended["runs"]),
            failed_by_hour=_added(ended, "failed", "timed_out"),
            spark=spark,
            single=partial(_single, document),
        )


def _single(document: NowDocument, group: QuestionGroupDocument) -> list[AgedQuestionDocument]:
    """Return the question of a group of one, if it is among the oldest."""
    questions = document["questions"] if group["count"] == 1 else []
    return [each for each in questions if each["question_id"] == group["question_id"]]


def ended_chart(ended: EndedTrendDocument, address: str = "/runs?") -> Chart:
    """Return the chart of how runs ended.

    Args:
        address: of their list, with a query that begins.
    """
    return Chart(
        title=f"Runs that ended, by {ended['per']}",
        per="hour" if ended["per"] == "hour" else "day",
        starts=ended["slots"],
        until=ended["until"],
        series=[
            Series(word(each["name"] or ""), f"state-{each['name']}", each["values"])
            for each in ended["series"]
            if any(each["values"])
        ],
        address=f"{address}since={{since}}&until={{until}}",
    )


def _added(ended: EndedTrendDocument, *statuses: str) -> list[float]:
    chosen = [each["values"] for each in ended["series"] if each["name"] in statuses]
    return [sum(values) for values in zip(*chosen, strict=True)]


def _spent_chart(document: NowDocument) -> Chart:
    """Return the chart of spending by agent; its line is the day's budget, spent evenly."""
    series = [
        Series(
            "others" if each["others"] else each["name"] or "other",
            "series-6" if each["others"] else f"series-{at}",
            each["values"],
        )
        for at, each in enumerate(document["spent"], 1)
    ]
    hours = [sum(each.values[at] or 0 for each in series) for at in range(24)]
    budget: Any = document["today"]["budget"]
    pace = None if budget["usd"] is None else budget["usd"] / 24
    return Chart(
        title="Spending by hour and agent",
        per="hour",
        starts=document["ended"]["slots"],
        until=document["ended"]["until"],
        series=series,
        text=money,
        has_whole_numbers=False,
        address="/runs?since={since}&until={until}",
        limit=pace if pace is not None and pace <= _MOST_OF_BUDGET * max(hours) else None,
        limit_label="the day's budget, spent evenly",
    )
