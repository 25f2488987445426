"""Pages about the engine: now, and workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from operator import itemgetter
from re import fullmatch
from typing import TYPE_CHECKING, Any, ClassVar

from sleipnir.graphs.document.queues import NAME as QUEUE_NAME
from sleipnir.scheduler.client.draining import ask_to_drain
from sleipnir.scheduler.views import agents, engine
from sleipnir.scheduler.views.documents import Document
from sleipnir.worker.monitor.bodies import DrainBody
from sleipnir.worker.monitor.charts.over_time import Chart, Series, over_time
from sleipnir.worker.monitor.formats import span
from sleipnir.worker.monitor.handlers.acts import ActingHandler
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.problems import Problem, Refused, bad_request

_MIB = 1024 * 1024
# Workers, and queues, on a page.
_MOST_SHOWN = 1_000

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types.engine import FleetDocument, WorkerDocument


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


class FleetHandler(DocumentHandler, ActingHandler):
    """The page; before it has workers drain, it shows what they do."""

    tab, title = "fleet", "Workers"

    async def get(self) -> None:
        await self._show()

    async def post(self) -> None:
        fields = self.given_fields()
        is_confirmed = bool(fields.pop("confirmed", ""))
        body = DrainBody.of({**fields, "undo": "undo" in fields})
        if not (is_confirmed or body.undo):
            await self._show(body.worker)
            return
        await self.drain(body)
        self.redirect("/fleet", status=303)

    async def drain(self, body: DrainBody) -> list[str]:
        """Ask workers to drain, or to take visits again; return their names."""
        ask = partial(ask_to_drain, self.site.client.store.client, [body.worker], undo=body.undo)
        return await self.act("undrain" if body.undo else "drain", body.worker, ask)

    async def _show(self, to_drain: str | None = None) -> None:
        document = await self.site.call(engine.fleet_document, self.site.client)
        if self.wants != "html":
            self.give(document)
            return
        workers, queues = document["workers"], document["queues"]
        by_length = sorted(queues, key=lambda name: not queues[name]["length"])
        listed = set(by_length[:_MOST_SHOWN])
        versions = Counter(worker["version"] for worker in workers)
        self.give(
            document,
            topics="inbox,fleet",
            task_events=self.site.task_events,
            machines=_by_machine(workers),
            shown=_by_machine(sorted(workers, key=itemgetter("machine"))[:_MOST_SHOWN]),
            queues={name: queue for name, queue in queues.items() if name in listed},
            usual_version=max(versions, key=lambda each: versions[each], default=None),
            charts=_charts(document),
            oldest_s=max((each["oldest_s"] for each in document["queues"].values()), default=0.0),
            to_drain=to_drain,
            touched=[each for each in workers if to_drain in (each["name"], each["machine"])],
            drain_s=self.site.client.store.settings.drain_s,
        )


def _by_machine(workers: Iterable[WorkerDocument]) -> dict[str, list[WorkerDocument]]:
    machines: dict[str, list[WorkerDocument]] = {}
    for worker in workers:
        machines.setdefault(worker["machine"], []).append(worker)
    return dict(sorted(machines.items()))


class DrainApi(FleetHandler):
    """POST /api/v1/fleet/drain"""

    async def post(self) -> None:
        body = DrainBody.of(self.json_body())
        asked = await self.drain(body)
        self.set_status(202)
        self.give_json({"workers": asked, "draining": not body.undo})


def _charts(document: FleetDocument) -> list[tuple[str, str]]:
    """Return the charts of the last hour, each with its title."""
    hour, limit = document["last_hour"], document["redis"]["limit_bytes"]
    memory = [each and each / _MIB for each in hour["memory_bytes"]]
    over = partial(Chart, per="minute", starts=hour["minutes"], until=hour["until"], lines=True)
    charts = (
        over("Messages of all queues", series=[Series("messages", "series-1", hour["queued"])]),
        over(
            "Age of the oldest message",
            series=[Series("age", "series-2", hour["oldest_s"])],
            text=span,
            has_whole_numbers=False,
        ),
        over(
            "Slots of workers",
            series=[
                Series("busy", "series-1", hour["busy"]),
                Series("there", "series-6", hour["slots"]),
            ],
        ),
        over(
            "Memory of Redis",
            series=[Series("memory", "series-3", memory)],
            text="{:,.0f} MiB".format,
            limit=limit / _MIB if limit else None,
            limit_label="its limit",
        ),
    )
    return [(chart.title, over_time(chart)) for chart in charts if any(chart.series[0].values)]


class ScaleApi(MonitorHandler):
    """GET /api/v1/scale"""

    async def get(self) -> None:
        self.require_known(("queue",))
        queue = self.text_argument("queue")
        if queue is not None and not fullmatch(QUEUE_NAME, queue):
            raise bad_request(f"queue must be a name of a to z, 0 to 9 and -, not '{queue}'")
        found = await self.site.call(
            engine.scale_document, self.site.client, self.site.scaling, queue
        )
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


class TallyApi(MonitorHandler):
    """GET /api/v1/tally"""

    async def get(self) -> None:
        self.give_json(await self.site.call(agents.tally_document, self.site.client))
