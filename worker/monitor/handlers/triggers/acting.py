"""What pages and the API do to triggers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.runs.time_bounds import duration_text
from sleipnir.scheduler.views.hooks import triggers as documents
from sleipnir.worker.monitor.bodies import RotateBody
from sleipnir.worker.monitor.handlers.acts import ActingHandler

if TYPE_CHECKING:
    from sleipnir.scheduler.client.inbound.triggers import TriggerClient
    from sleipnir.scheduler.views.types import hooks as types
    from sleipnir.worker.monitor.bodies import TriggerBody


class TriggersHandler(ActingHandler):
    """Reads triggers, and changes them."""

    @property
    def triggers(self) -> TriggerClient:
        return self.site.client.triggers

    async def listed(self) -> types.TriggerListDocument:
        """Return all triggers."""
        return await self.site.call(documents.list_document, self.site.client)

    async def shown(self, name: str) -> types.TriggerDocument:
        """Return a trigger; raises TriggerNotFound."""
        client = self.site.client
        return await self.site.call(
            lambda: documents.trigger_document(client, client.triggers.get(name))
        )

    async def created(self, body: TriggerBody) -> types.CreatedTriggerDocument:
        """Make a trigger; return it with its secret."""
        wanted = body.model_dump(exclude={"name"})
        made = await self.act(
            *("trigger create", body.name, self.triggers.create, body.name, wanted),
            detail=body.agent,
        )
        return {**await self.shown(body.name), "secret": made.secret}

    async def changed(self, name: str, changes: dict[str, Any]) -> types.TriggerDocument:
        """Change some fields of a trigger."""
        detail = ", ".join(sorted(changes))[:200]
        await self.act("trigger edit", name, self.triggers.edit, name, changes, detail=detail)
        return await self.shown(name)

    async def rotated(self, name: str, given: dict[str, Any]) -> types.SecretDocument:
        """Give a trigger another secret, and return it."""
        keep_s = RotateBody.of(given).keep
        secret = await self.act(
            *("trigger rotate", name, self.triggers.rotate, name, keep_s),
            detail=f"the one before it is good for {duration_text(keep_s)}",
        )
        return {"name": name, "secret": secret}

    async def deleted(self, name: str) -> dict[str, Any]:
        """Remove a trigger."""
        await self.act("trigger delete", name, self.triggers.delete, name)
        return {"name": name, "deleted": True}
