"""The pages of schedules: /schedules"""

from __future__ import annotations

from urllib.parse import quote

from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.views.schedules.documents import when_text
from sleipnir.scheduler.views.text.tables import schedules as schedule_table
from sleipnir.worker.monitor.handlers.schedules.acting import SchedulesHandler
from sleipnir.worker.monitor.problems import problem_of


class SchedulesPage(SchedulesHandler):
    """The list."""

    async def get(self) -> None:
        document = await self.listed()
        if self.wants == "json":
            self.give_json(document)
        elif self.wants == "text":
            self.give_lines(schedule_table.lines_of(document["schedules"]))
        else:
            self.give_page(
                "schedules.html",
                tab="schedules",
                title="Schedules",
                document=document,
                when=when_text,
            )


class SchedulePage(SchedulesHandler):
    """One schedule, and what can be done to it."""

    async def get(self, name: str) -> None:
        await self._show(name)

    async def post(self, name: str, deed: str) -> None:
        given = {
            each: self.get_body_argument(each).strip()
            for each in ("reason", "from", "to")
            if self.get_body_argument(each, "").strip()
        }
        try:
            _, document = await self.do(name, deed, given)
        except SleipnirError as error:
            self.set_status(problem_of(error).status)
            await self._show(name, problem_of(error).message)
            return
        address = f"/schedules/{quote(name)}"
        if deed == "trigger":
            address = f"/runs/{document['run_id']}"
        self.redirect("/schedules" if deed == "delete" else address, status=303)

    async def _show(self, name: str, problem: str | None = None) -> None:
        shown = await self.shown(name)
        if self.wants == "json":
            self.give_json(shown)
        elif self.wants == "text":
            self.give_lines(schedule_table.page_of(shown))
        else:
            self.give_page(
                "schedule.html",
                tab="schedules",
                title=f"Schedule {name}",
                schedule=shown,
                when=when_text(shown),
                problem=problem,
            )
