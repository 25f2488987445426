"""What model calls cost: the page, its numbers for spreadsheets, and the same for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.scheduler.views.trends import costs
from sleipnir.scheduler.views.trends.costs_by import BY
from sleipnir.scheduler.views.trends.windows import PERIODS
from sleipnir.worker.monitor.charts.over_time import Chart, Series, over_time
from sleipnir.worker.monitor.formats import money
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.trends import CostRowDocument, CostsDocument

_PERIOD_WORDS: Final = {"24h": "24 h", "7d": "7 d", "30d": "30 d"}
# How what has no name is called.
_NAMELESS: Final = {"batch": "no batch", "label": "without"}
# What spreadsheets get, by its name in the document.
_COLUMNS: Final = (
    *("name", "cost_usd", "share", "before_usd", "runs", "run_usd", "calls"),
    *("tokens_in", "cached", "tokens_out", "unknown_price_calls", "failed_calls", "waited_s"),
)
_SHARES: Final = ("p50", "p95")
# A spreadsheet takes what begins with one of these for a formula.
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r")


class CostsHandler(MonitorHandler):
    """/costs and /api/v1/costs: in a period, by agent, model, batch, node or label."""

    async def get(self) -> None:
        document = masked_texts(await self._document())
        if self.wants == "json":
            self.give_json(document)
        elif self.text_argument("form") == "csv":
            self._give_csv(document)
        else:
            self._give_page(document)

    async def _document(self) -> CostsDocument:
        period = self.choice_argument("period", tuple(PERIODS), "7d")
        per = self.choice_argument("per", ("hour", "day"), PERIODS[period][0])
        by = self.choice_argument("by", BY, "agent")
        if per not in PERIODS[period]:
            raise bad_request(f"period={period} is by {' or '.join(PERIODS[period])}, not by {per}")
        return await self.site.call(
            costs.costs_document,
            self.site.client,
            self.site.typical,
            period=period,
            per=per,
            by=by,
            label=self.text_argument("label"),
        )

    def _give_page(self, document: CostsDocument) -> None:
        by = document["by"]
        pers = next(pers for period, pers in PERIODS.items() if period == document["period"])
        self.give_page(
            "costs.html",
            tab="costs",
            title="Costs",
            topics="inbox",
            document=document,
            chart=over_time(cost_chart(document), self.site.prefix),
            periods=_PERIOD_WORDS,
            pers=pers,
            bys=BY,
            nameless=_NAMELESS.get(by, "other"),
            bars=_bars(document["rows"]),
            out_of=document["total"]["cost_usd"],
        )

    def _give_csv(self, document: CostsDocument) -> None:
        """Respond with the table for spreadsheets."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow((document["by"], *_COLUMNS[1:], *(f"took_s_{share}" for share in _SHARES)))
        for row in document["rows"]:
            name = row["name"] or ""
            values: Mapping[str, object] = dict(row)
            shielded = f"'{name}" if name.startswith(_FORMULAS) else name
            took = (row["took_s"][share] for share in _SHARES)
            writer.writerow((shielded, *(values[column] for column in _COLUMNS[1:]), *took))
        self.set_header("Content-Type", "text/csv; charset=utf-8")
        self.set_header("Content-Disposition", 'attachment; filename="costs.csv"')
        self.finish(text.getvalue())


def cost_chart(document: CostsDocument) -> Chart:
    """Return the chart of a document."""
    per, by = document["per"], document["by"]
    nameless = _NAMELESS.get(by, "other")
    series = [
        Series(
            "others" if each["others"] else each["name"] or nameless,
            "series-6" if each["others"] else f"series-{at}",
            each["values"],
        )
        for at, each in enumerate(document["series"], 1)
    ]
    return Chart(
        title=f"Spending by {per} and {document['label'] or by}",
        per="hour" if per == "hour" else "day",
        starts=document["slots"],
        until=document["until"],
        series=series,
        text=money,
        has_whole_numbers=False,
        address="/runs?since={since}&until={until}",
    )


def _bars(rows: Sequence[CostRowDocument]) -> list[int]:
    """Return how long the bar of each row is, out of 100."""
    most = max((row["cost_usd"] for row in rows), default=0.0)
    return [round(100 * row["cost_usd"] / most) if most else 0 for row in rows]
