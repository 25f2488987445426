"""Acts, which are recorded in the audit log whatever their outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sleipnir.scheduler.client.rerun.agents import CURRENT, SAME, current_reference
from sleipnir.scheduler.client.steer import ANY_MACHINE
from sleipnir.scheduler.errors import ActionRefused, SleipnirError
from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.audit.log import DONE, AuditFilter
from sleipnir.scheduler.views import audit, versions
from sleipnir.worker.monitor.bodies import CancelBody, MoveBody, RetryBody
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.problems import problem_of

T = TypeVar("T")

AS_IT_IS_NOW = "with the agent as it is now"
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
        question: Question | None = None,
    ) -> T:
        """Call a function that changes something, and record its outcome."""
        outcome = DONE
        try:
            return await self.site.call(function, *arguments)
        except SleipnirError as error:
            outcome = problem_of(error).message
            raise
        finally:
            await self.site.call(
                self.audit_entry(name, detail, waited_s, question), target, outcome
            )

    async def note(self, name: str, target: str, detail: str, outcome: str) -> None:
        """Record an act and its outcome."""
        await self.site.call(self.audit_entry(name, detail), target, outcome)


class SteerHandler(ActingHandler):
    """POST …/runs/ID/cancel, /retry and /move, by a form or with a JSON object"""

    async def post(self, run_id: str, name: str) -> None:
        if name == "cancel":
            await self._cancel(run_id)
        elif name == "move":
            await self._move(run_id)
        elif not await self._retry(run_id):
            return
        if self.gives_json:
            run = await self.site.call(self.site.client.queries.run, run_id)
            self.set_status(202)
            self.give_json({"run_id": run_id, "status": str(run.status), "digest": run.digest})
        else:
            self.redirect(f"/runs/{run_id}", status=303)

    async def _cancel(self, run_id: str) -> None:
        reason = CancelBody.of(self.given_fields()).reason.strip() or CANCEL_REASON
        await self.act("cancel", run_id, self.site.client.cancel, run_id, reason, detail=reason)

    async def _move(self, run_id: str) -> None:
        machine = MoveBody.of(self.given_fields()).machine
        target = None if machine == ANY_MACHINE else machine
        await self.act("move", run_id, self.site.client.move, run_id, target, detail=machine)

    async def _retry(self, run_id: str) -> bool:
        """Retry the run; return False if a page was shown instead, on which to confirm it."""
        body, client = RetryBody.of(self.given_fields()), self.site.client
        run = await self.site.call(client.queries.run, run_id)
        if body.agent == CURRENT and body.digest is None and not self.gives_json:
            changes = await self.site.call(versions.retry_document, client, run)
            self.give_page(
                "retry_confirm.html",
                tab="runs",
                title="Retry",
                run=run,
                changes=await self.site.call(self.site.masks.masked, changes, run),
            )
            return False

        def retry() -> None:
            if body.agent == CURRENT:
                agent = client.prepare(current_reference(run))
                if body.digest not in (None, agent.digest):
                    raise ActionRefused(
                        f"agent '{run.agent}' is now version {agent.digest[:12]}, "
                        f"not {str(body.digest)[:12]}"
                    )
                client.retry(run_id, agent=agent)
            else:
                client.retry(run_id)

        await self.act("retry", run_id, retry, detail="" if body.agent == SAME else AS_IT_IS_NOW)
        return True


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
