"""Batches: the list, and single ones with their charts, failures and runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError

from sleipnir.scheduler.batch.results.lines import ResultLines
from sleipnir.scheduler.runs.model import Status
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.testing.evaluation.batches import EvaluationBatch
from sleipnir.scheduler.views import batches
from sleipnir.scheduler.views.runs import runs_overview
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.scheduler.views.text.tables import batches as batch_table
from sleipnir.worker.monitor.charts.bins import spark_svg
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.handlers.engine import DocumentHandler
from sleipnir.worker.monitor.pages.batch_charts import charts_of
from sleipnir.worker.monitor.problems import Problem, Refused
from sleipnir.worker.monitor.topics import batch_topic

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.batches import BatchReportDocument
    from sleipnir.scheduler.views.types.records import ListedRunDocument

_LIMIT = 50
_MOST = 200
_STATUSES = tuple(map(str, Status))
_LINES = 100  # of a download that are built and sent at a time
_RUNS = 20  # of a batch's page
_SPARK = 24  # newest parts of the time


class BatchesHandler(DocumentHandler):
    tab, title = "batches", "Batches"

    async def get(self) -> None:
        document = await self.site.call(
            batches.batches_overview,
            self.site.client,
            limit=self.number_argument("limit", _LIMIT, _MOST),
            cursor=self.text_argument("cursor"),
        )
        if self.wants == "text":
            self.give_lines(batch_table.lines_of(document["batches"], fit=False))
            return
        self.give(document, topics="inbox,runs")


class BatchHandler(DocumentHandler):
    tab, title, section = "batch", "Batch", "batches"

    async def get(self, name: str) -> None:
        site = self.site
        found = await site.call(batches.batch_report, site.client, site.spreads, name)
        if found is None:
            raise _unknown(name)
        if self.wants != "html":
            self.give(found)
            return
        chosen = [each for each in self.get_query_arguments("status") if each in _STATUSES]
        now_ms = await site.call(site.client.queries.now_ms)
        failures = await site.call(batches.batch_errors, site.client, name)
        eta_s = found["eta_s"]
        self.give(
            found,
            **_figures(found),
            failures=failures,
            sparks=[spark_svg(each["by_time"], "when they failed") for each in failures["errors"]],
            charts=list(charts_of(found)),
            ends_at=None if eta_s is None else to_rfc3339(round(now_ms + 1_000 * eta_s)),
            statuses=batches.STATUSES,
            chips=_STATUSES,
            chosen=chosen,
            evaluated=EvaluationBatch.named(name),
            runs=await site.call(self._runs, name, frozenset(map(Status, chosen))),
            topics=f"inbox,{batch_topic(name)}",
            crumbs=[(name, None)],
        )

    def _runs(self, name: str, statuses: frozenset[Status]) -> list[ListedRunDocument]:
        wanted = RunFilter(statuses=statuses, batch=name)
        found = runs_overview(self.site.client, wanted, self.site.typical, limit=_RUNS)
        return masked_texts(found["runs"])


def _figures(batch: BatchReportDocument) -> dict[str, Any]:
    """Return what the head and the tiles of a batch show besides its document."""
    open_now = batch["open"] + batch["waiting"]
    failed = batch["failed"] + batch["timed_out"]
    ends = [each["succeeded"] + each["failed"] for each in batch["spread"]["ends"]]
    return {
        "ended": batch["runs"] + batch["removed"] - open_now,
        "failed": failed,
        "unsubmitted": max(0, batch["total"] - batch["runs"] - batch["removed"]),
        "spark": spark_svg(ends[-_SPARK:], "runs that ended, lately"),
    }


class BatchErrorsApi(MonitorHandler):
    """GET /api/v1/batches/NAME/errors"""

    async def get(self, name: str) -> None:
        client = self.site.client
        if await self.site.call(batches.batch_page, client.queries, name) is None:
            raise _unknown(name)
        self.give_json(await self.site.call(batches.batch_errors, client, name))


class BatchResults(MonitorHandler):
    """/batches/NAME/results and below /api/v1: runs that are over, a JSON line each."""

    async def get(self, name: str) -> None:
        found = await self.site.call(batches.batch_page, self.site.client.queries, name)
        if found is None:
            raise _unknown(name)
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        self.set_header("Content-Disposition", 'attachment; filename="results.jsonl"')
        lines = self._lines(name)
        with suppress(StreamClosedError):
            while chunk := await self.site.call(lambda: "".join(islice(lines, _LINES))):
                self.write(chunk)
                await self.flush()  # waits for slow readers: lines must not pile up

    def _lines(self, name: str) -> Iterator[str]:
        for run, document in ResultLines(self.site.client).of_batch(name):
            yield json.dumps(self.site.masks.masked(document, run), ensure_ascii=False) + "\n"


def _unknown(name: str) -> Refused:
    return Refused(Problem(404, "not_found", f"there is no batch '{name}'"))
