"""Acts, which are recorded in the audit log whatever their outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.store.audit.log import DONE, AuditFilter
from sleipnir.scheduler.views import audit
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.problems import problem_of

T = TypeVar("T")

CANCEL_REASON = "cancelled on the monitor's page"
MOST_REASON = 500
_PAGE = 100
_MOST = 1_000


class ActingHandler(MonitorHandler):
    """A handler whose acts are recorded."""

    async def act(
        self,
        name: str,
        target: str,
        function: Callable[..., T],
        *arguments: Any,
        detail: str = "",
        waited_s: float | None = None,
    ) -> T:
        """Call a function that changes something, and record its outcome."""
        outcome = DONE
        try:
            return await self.site.call(function, *arguments)
        except SleipnirError as error:
            outcome = problem_of(error).message
            raise
        finally:
            await self.site.call(self.noting(name, detail, waited_s), target, outcome)

    async def note(self, name: str, target: str, detail: str, outcome: str) -> None:
        """Record an act and its outcome."""
        await self.site.call(self.noting(name, detail), target, outcome)


class SteerHandler(ActingHandler):
    """POST …/runs/ID/cancel and /retry"""

    async def post(self, run_id: str, name: str) -> None:
        client = self.site.client
        if name == "cancel":
            reason = self.get_body_argument("reason", "").strip() or CANCEL_REASON
            if len(reason) > MOST_REASON:
                raise bad_request(f"the reason is longer than {MOST_REASON} characters")
            await self.act(name, run_id, client.cancel, run_id, reason, detail=reason)
        else:
            await self.act(name, run_id, client.retry, run_id)
        if self.gives_json:
            status = (await self.site.call(client.queries.run, run_id)).status
            self.set_status(202)
            self.give_json({"run_id": run_id, "status": str(status)})
        else:
            self.redirect(f"/runs/{run_id}", status=303)


class SteerApi(SteerHandler):
    gives_json = True


class AuditHandler(MonitorHandler):
    """The audit log, newest first."""

    async def get(self) -> None:
        document = await self.site.call(
            audit.audit_document,
            self.site.audit,
            AuditFilter(*map(self.text_argument, ("who", "act", "target", "outcome"))),
            limit=self.number_argument("limit", _PAGE, _MOST),
            cursor=self.text_argument("cursor"),
        )
        if self.wants == "json":
            self.give_json(document)
            return
        argument = self.text_argument
        self.give_page("audit.html", tab="audit", title="Acts", audit=document, argument=argument)


class AuditApi(AuditHandler):
    gives_json = True
