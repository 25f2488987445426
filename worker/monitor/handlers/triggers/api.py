"""The API of triggers: /api/v1/triggers"""

from __future__ import annotations

from sleipnir.worker.monitor.bodies import TriggerBody
from sleipnir.worker.monitor.handlers.triggers.acting import TriggersHandler


class TriggersApi(TriggersHandler):
    """GET and POST /api/v1/triggers"""

    async def get(self) -> None:
        self.give_json(await self.listed())

    async def post(self) -> None:
        document = await self.created(TriggerBody.of(self.json_body()))
        self.set_status(201)
        self.give_json(document)


class TriggerApi(TriggersHandler):
    """GET, PATCH and DELETE /api/v1/triggers/NAME"""

    async def get(self, name: str) -> None:
        self.give_json(await self.shown(name))

    async def patch(self, name: str) -> None:
        self.give_json(await self.changed(name, self.json_body()))

    async def delete(self, name: str) -> None:
        self.give_json(await self.deleted(name))


class TriggerRotateApi(TriggersHandler):
    """POST /api/v1/triggers/NAME/rotate"""

    async def post(self, name: str) -> None:
        given = self.json_body() if self.request.body else {}
        self.give_json(await self.rotated(name, given))
