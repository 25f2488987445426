"""Pages about everything but single runs: now, batches, workers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar

from tornado.iostream import StreamClosedError

from sleipnir.scheduler.batch.results.lines import ResultLines
from sleipnir.scheduler.views import agents, batches, engine
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.text.tables import batches as batch_table
from sleipnir.worker.monitor.charts.bars import bar_svg, columns_svg, days_svg
from sleipnir.worker.monitor.handlers.acts import ActingHandler
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.problems import Problem, Refused
from sleipnir.worker.monitor.topics import batch_topic

_LIMIT = 50
_MOST = 200
# The state that colours runs which are queued or running.
_LOOKS = {"open": "running"}
_LINES = 100  # of a download that are built and sent at a time


class DocumentHandler(MonitorHandler):
    """A page of one document, or the document itself."""

    tab: ClassVar[str]
    title: ClassVar[str]
    section: ClassVar[str] = ""  # the tab whose page lists this one

    def give(self, document: Document, **values: Any) -> None:
        """Respond with a document, in the requested form."""
        if self.wants == "json":
            self.give_json(document)
            return
        page = f"{self.tab}.html"
        tab = self.section or self.tab
        self.give_page(page, tab=tab, title=self.title, document=document, **values)


class NowHandler(DocumentHandler):
    tab, title = "now", "Now"

    async def get(self) -> None:
        site = self.site
        document = await site.call(engine.overview_document, site.client, site.hourly, site.typical)
        hours = columns_svg(document["created_by_hour"], "runs created by hour")
        days = days_svg(document["spent"])
        self.give(document, hours=hours, spent_days=days, topics="inbox,runs,fleet")


class FleetHandler(DocumentHandler):
    tab, title = "fleet", "Workers"

    async def get(self) -> None:
        document = await self.site.call(engine.fleet_document, self.site.client)
        self.give(document, topics="inbox,fleet", task_events=self.site.task_events)


class ScaleApi(MonitorHandler):
    """GET /api/v1/scale"""

    async def get(self) -> None:
        self.require_known(("queue",))
        queue = self.text_argument("queue")
        if queue not in (None, engine.DEFAULT_QUEUE):
            raise Refused(Problem(404, "not_found", f"there is no queue '{queue}'"))
        found = await self.site.call(engine.scale_document, self.site.client, self.site.scaling)
        if found is None:
            text = "the queue is on another broker, which does not say how much work there is"
            raise Refused(Problem(404, "not_found", text))
        self.give_json(found)


class TaskEventsHandler(ActingHandler):
    """POST /fleet/task-events/watch and /stop"""

    async def post(self, name: str) -> None:
        events = self.site.task_events
        if events is None:
            raise Refused(Problem(404, "not_found", "there are no pages of Celery's tasks here"))
        if name == "watch":
            await events.watch(await self.site.call(self.site.client.queries.now_ms))
        else:
            await events.stop()
        await self.note("task-events", name, "", "done")
        self.redirect("/fleet#celery", status=303)


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
        found = await self.site.call(batches.batch_report, self.site.client, name)
        if found is None:
            raise Refused(Problem(404, "not_found", f"there is no batch '{name}'"))
        counts = {status: found[status] for status in batches.STATUSES}
        bar = bar_svg({_LOOKS.get(each, each): n for each, n in counts.items()}, found["total"])
        self.give(found, bar=bar, topics=f"inbox,{batch_topic(name)}", crumbs=[(name, None)])


class BatchResults(MonitorHandler):
    """/batches/NAME/results and below /api/v1: runs that are over, a JSON line each."""

    async def get(self, name: str) -> None:
        found = await self.site.call(batches.batch_page, self.site.client.queries, name)
        if found is None:
            raise Refused(Problem(404, "not_found", f"there is no batch '{name}'"))
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


class TallyApi(MonitorHandler):
    """GET /api/v1/tally"""

    async def get(self) -> None:
        self.give_json(await self.site.call(agents.tally_document, self.site.client))
