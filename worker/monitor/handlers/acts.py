"""Acts: who did what is noted, whatever came of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.store.audit.log import Act
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.problems import problem_of

T = TypeVar("T")

CANCEL_REASON = "cancelled on the monitor's page"
MOST_REASON = 500
_PAGE = 100
_RUN_ID = re.compile("[0-9a-f]{16}")


class ActingHandler(MonitorHandler):
    """A handler whose acts are noted."""

    async def act(
        self, name: str, target: str, function: Callable[..., T], *arguments: Any, detail: str = ""
    ) -> T:
        """Call a function that changes something; note what came of it."""
        outcome = "done"
        try:
            return await self.site.call(function, *arguments)
        except SleipnirError as error:
            outcome = problem_of(error).message
            raise
        finally:
            await self.note(name, target, detail, outcome)

    async def note(self, name: str, target: str, detail: str, outcome: str) -> None:
        """Note an act, and what came of it."""
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
    """What was done, newest first."""

    async def get(self) -> None:
        entries = await self.site.call(
            self.site.audit.newest, _PAGE + 1, self.text_argument("cursor")
        )
        shown = entries[:_PAGE]
        document = {
            "acts": [{"at": to_rfc3339(entry.at), **_fields(entry.act)} for entry in shown],
            "next": shown[-1].place if len(entries) > _PAGE else None,
        }
        if self.wants == "json":
            self.give_json(document)
        else:
            self.give_page("audit.html", tab="audit", title="Acts", audit=document)


class AuditApi(AuditHandler):
    gives_json = True


def _fields(act: Act) -> dict[str, str | None]:
    run_id = act.target.partition("/")[0]
    fields = {name: getattr(act, name) for name in Act.__slots__}
    return {**fields, "run_id": run_id if _RUN_ID.fullmatch(run_id) else None}
