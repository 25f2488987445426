"""The API of schedules: /api/v1/schedules"""

from __future__ import annotations

from sleipnir.scheduler.views.schedules import documents
from sleipnir.scheduler.views.submission import require_name
from sleipnir.worker.monitor.bodies import ScheduleBody
from sleipnir.worker.monitor.handlers.schedules.acting import SchedulesHandler


class SchedulesApi(SchedulesHandler):
    """GET and POST /api/v1/schedules"""

    takes_values = True

    async def get(self) -> None:
        self.give_json(await self.listed())

    async def post(self) -> None:
        body = ScheduleBody.of(self.json_body())
        require_name(body.agent)
        made = await self.act(
            "schedule create", body.name, self.schedules.create, body.name, body, detail=body.agent
        )
        self.set_status(201)
        self.give_json(documents.schedule_document(made))


class ScheduleApi(SchedulesHandler):
    """GET, PATCH and DELETE /api/v1/schedules/NAME"""

    takes_values = True

    async def get(self, name: str) -> None:
        self.give_json(await self.shown(name))

    async def patch(self, name: str) -> None:
        changes = self.json_body()
        require_name(str(changes.get("agent", "")))
        detail = ", ".join(sorted(changes))[:200]
        made = await self.act(
            "schedule edit", name, self.schedules.edit, name, changes, detail=detail
        )
        self.give_json(documents.schedule_document(made))

    async def delete(self, name: str) -> None:
        _, document = await self.do(name, "delete", {})
        self.give_json(document)


class ScheduleActsApi(SchedulesHandler):
    """POST /api/v1/schedules/NAME/pause, /resume, /trigger, /backfill"""

    async def post(self, name: str, deed: str) -> None:
        given = self.json_body() if self.request.body else {}
        status, document = await self.do(name, deed, given)
        self.set_status(status)
        self.give_json(document)
