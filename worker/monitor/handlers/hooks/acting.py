"""What pages and the API do to hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.runs.time_bounds import duration_text
from sleipnir.scheduler.views.hooks import documents
from sleipnir.worker.monitor.bodies import RedeliverBody, RotateBody
from sleipnir.worker.monitor.handlers.acts import ActingHandler

if TYPE_CHECKING:
    from sleipnir.scheduler.client.hooks.hooks import HookClient
    from sleipnir.scheduler.views.types import hooks as types
    from sleipnir.worker.monitor.bodies import HookBody


class HooksHandler(ActingHandler):
    """Reads hooks, and changes them."""

    @property
    def hooks(self) -> HookClient:
        return self.site.client.hooks

    async def listed(self) -> types.HookListDocument:
        """Return all hooks."""
        return await self.site.call(documents.list_document, self.site.client)

    async def shown(self, name: str) -> types.HookDocument:
        """Return a hook; raises HookNotFound."""
        client = self.site.client
        return await self.site.call(lambda: documents.hook_document(client, self.hooks.get(name)))

    async def attempts(self, name: str) -> types.AttemptListDocument:
        """Return the last attempts to tell a hook; raises HookNotFound."""
        return await self.site.call(documents.attempts_document, self.site.client, name)

    async def do(self, name: str, deed: str, given: dict[str, Any]) -> tuple[int, Any]:
        """Do something to a hook, and record it; return a status and a document."""
        return await getattr(self, f"_{deed}")(name, given)  # type: ignore[no-any-return]

    async def created(self, body: HookBody) -> types.CreatedHookDocument:
        """Make a hook; return it with its secret."""
        wanted = body.model_dump(exclude={"name"})
        made = await self.act(
            *("hook create", body.name, self.hooks.create, body.name, wanted), detail=body.url
        )
        return {**await self.shown(body.name), "secret": made.secret}

    async def changed(self, name: str, changes: dict[str, Any]) -> types.HookDocument:
        """Change some fields of a hook."""
        detail = ", ".join(sorted(changes))[:200]
        await self.act("hook edit", name, self.hooks.edit, name, changes, detail=detail)
        return await self.shown(name)

    async def _enable(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        return 200, await self.changed(name, {"enabled": True})

    async def _disable(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        return 200, await self.changed(name, {"enabled": False})

    async def _rotate(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        keep_s = RotateBody.of(given).keep
        made = await self.act(
            *("hook rotate", name, self.hooks.rotate, name, keep_s),
            detail=f"the one before it signs for {duration_text(keep_s)}",
        )
        return 200, {"name": name, "secret": made.secret}

    async def _test(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        event_id = await self.act("hook test", name, self.hooks.test, name)
        return 202, {"event_id": event_id}

    async def _redeliver(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        event = RedeliverBody.of(given).event_id
        await self.act("hook redeliver", name, self.hooks.redeliver, name, event, detail=event)
        return 202, {"event_id": event}

    async def _delete(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        await self.act("hook delete", name, self.hooks.delete, name)
        return 200, {"name": name, "deleted": True}
