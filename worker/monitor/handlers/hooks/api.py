"""The API of hooks: /api/v1/hooks"""

from __future__ import annotations

from sleipnir.worker.monitor.bodies import HookBody
from sleipnir.worker.monitor.handlers.hooks.acting import HooksHandler


class HooksApi(HooksHandler):
    """GET and POST /api/v1/hooks"""

    async def get(self) -> None:
        self.give_json(await self.listed())

    async def post(self) -> None:
        document = await self.created(HookBody.of(self.json_body()))
        self.set_status(201)
        self.give_json(document)


class HookApi(HooksHandler):
    """GET, PATCH and DELETE /api/v1/hooks/NAME"""

    async def get(self, name: str) -> None:
        self.give_json(await self.shown(name))

    async def patch(self, name: str) -> None:
        self.give_json(await self.changed(name, self.json_body()))

    async def delete(self, name: str) -> None:
        _, document = await self.do(name, "delete", {})
        self.give_json(document)


class HookDeliveriesApi(HooksHandler):
    """GET /api/v1/hooks/NAME/deliveries"""

    async def get(self, name: str) -> None:
        self.give_json(await self.attempts(name))


class HookActsApi(HooksHandler):
    """POST /api/v1/hooks/NAME/enable, /disable, /rotate, /test, /redeliver"""

    async def post(self, name: str, deed: str) -> None:
        given = self.json_body() if self.request.body else {}
        status, document = await self.do(name, deed, given)
        self.set_status(status)
        self.give_json(document)
