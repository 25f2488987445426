"""What pages and the API do to schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.runs.schedules.model import Overlap
from sleipnir.scheduler.runs.time_bounds import parse_time_bound
from sleipnir.scheduler.views.schedules import documents
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.worker.monitor.bodies import BackfillBody, PauseBody
from sleipnir.worker.monitor.handlers.acts import ActingHandler
from sleipnir.worker.monitor.handlers.base import bad_request

if TYPE_CHECKING:
    from sleipnir.scheduler.client.schedules.schedules import ScheduleClient
    from sleipnir.scheduler.views.types.schedules import ShownScheduleDocument


class SchedulesHandler(ActingHandler):
    """Reads schedules, and changes them."""

    @property
    def schedules(self) -> ScheduleClient:
        return self.site.client.schedules

    async def listed(self) -> Any:
        """Return all schedules."""
        return masked_texts(
            await self.site.call(lambda: documents.list_document(self.schedules.list()))
        )

    async def shown(self, name: str) -> ShownScheduleDocument:
        """Return a schedule; raises ScheduleNotFound."""
        client = self.site.client
        document: ShownScheduleDocument = masked_texts(
            await self.site.call(lambda: documents.shown_document(client, self.schedules.get(name)))
        )
        return document

    async def do(self, name: str, deed: str, given: dict[str, Any]) -> tuple[int, Any]:
        """Do something to a schedule, and record it; return a status and a document."""
        return await getattr(self, f"_{deed}")(name, given)  # type: ignore[no-any-return]

    async def _pause(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        reason = PauseBody.of(given).reason
        made = await self.act(
            "schedule pause", name, self.schedules.pause, name, reason, detail=reason
        )
        return 200, documents.schedule_document(made)

    async def _resume(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        made = await self.act("schedule resume", name, self.schedules.resume, name)
        return 200, documents.schedule_document(made)

    async def _trigger(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        run_id = await self.act("schedule trigger", name, self.schedules.trigger, name)
        return 202, {"run_id": run_id}

    async def _backfill(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        body = BackfillBody.of(given)
        overlap = None if body.overlap is None else Overlap(body.overlap)
        now_ms = await self.site.call(self.site.client.queries.now_ms)
        try:
            first, last = (parse_time_bound(text).at(now_ms) for text in (body.first, body.last))
        except ValueError as error:
            raise bad_request(str(error)) from error
        filled = await self.act(
            *("schedule backfill", name, self.schedules.backfill, name, first, last, overlap),
            detail=f"{body.first} to {body.last}",
        )
        return 202, documents.backfilled_document(filled)

    async def _delete(self, name: str, given: dict[str, Any]) -> tuple[int, Any]:
        await self.act("schedule delete", name, self.schedules.delete, name)
        return 200, {"name": name, "deleted": True}
