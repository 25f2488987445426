"""Acts, which are recorded in the audit log whatever their outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sleipnir.scheduler.client.rerun.agents import CURRENT, current_reference
from sleipnir.scheduler.client.rerun.retry import RetryRequest
from sleipnir.scheduler.client.steer import ANY_MACHINE
from sleipnir.scheduler.errors import ActionRefused, SleipnirError
from sleipnir.scheduler.runs.model import Question, Run
from sleipnir.scheduler.store.audit.log import DONE, AuditFilter
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.views import audit
from sleipnir.scheduler.views.again.places import again_document
from sleipnir.worker.monitor.bodies import CancelBody, ForkBody, MoveBody, RetryBody
from sleipnir.worker.monitor.handlers.arguments import whole_number
from sleipnir.worker.monitor.handlers.base import MonitorHandler
from sleipnir.worker.monitor.handlers.run_parts import RunHandler
from sleipnir.worker.monitor.pages.run_head import title_of
from sleipnir.worker.monitor.problems import problem_of

T = TypeVar("T")

CANCEL_REASON = "cancelled on the monitor's page"
MOST_REASON = 500
_PAGE = 100
_MOST = 1_000
_TITLES = {
    "cancel": "Cancel the run",
    "fork": "Fork the run",
    "move": "Move the run",
    "retry": "Retry the run",
}


def told_of_retry(request: RetryRequest) -> str:
    """Return how the audit log tells of a retry."""
    where = [] if request.from_step is None else [f"from step {request.from_step}"]
    which = ["with the agent as it is now"] if request.agent == CURRENT else []
    return ", ".join([*where, *which])


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


class SteerHandler(RunHandler, ActingHandler):
    """/runs/ID/cancel, /retry, /move and /fork; POST, by a form or with a JSON object, acts."""

    async def get(self, run_id: str, name: str) -> None:
        of = await self.found(run_id)
        head = await self.headline(of)
        self.give_page(
            f"run_{name}.html",
            tab="runs",
            title=_TITLES[name],
            run=head,
            run_title=title_of(head),
            step=self.text_argument("step"),
            most_reason=MOST_REASON,
            **await self._told(of, name),
        )

    async def _told(self, of: Run, name: str) -> dict[str, Any]:
        """Return what the page of an act says besides the head of the run."""
        if name in ("retry", "fork"):
            return {"again": await self.shown(again_document, of)}
        if name == "move":
            machines = await self.site.call(self._machines, of)
            return {"machines": machines, "any_machine": ANY_MACHINE}
        return {}

    def _machines(self, of: Run) -> list[str]:
        """Return the machines that the run can be moved to."""
        workers = Machines(self.site.client.store.client).workers()
        return sorted({worker.machine for worker in workers} - {of.machine})

    async def post(self, run_id: str, name: str) -> None:
        if name == "fork":
            await self._fork(run_id)
            return
        await getattr(self, f"_{name}")(run_id)
        if self.gives_json:
            run = await self.found(run_id)
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

    async def _retry(self, run_id: str) -> None:
        body, client = RetryBody.of(self._numbered("from_step")), self.site.client
        run = await self.found(run_id)

        def retry() -> None:
            if body.agent != CURRENT:
                client.retry(run_id, body.from_step)
                return
            agent = client.prepare(current_reference(run))
            if body.digest not in (None, agent.digest):
                raise ActionRefused(
                    f"agent '{run.agent}' is now version {agent.digest[:12]}, "
                    f"not {str(body.digest)[:12]}"
                )
            client.retry(run_id, body.from_step, agent=agent)

        request = RetryRequest(body.from_step, agent=body.agent)
        await self.act("retry", run_id, retry, detail=told_of_retry(request))

    async def _fork(self, run_id: str) -> None:
        given = self._numbered("step")
        if not self.gives_json:  # fields that are left empty change nothing
            given = {name: value for name, value in given.items() if value != ""}
        body = ForkBody.of(given)

        def fork() -> str:
            client = self.site.client
            return client.fork(run_id, body.step, state=body.state, prompt=body.prompt).run_id

        new = await self.act("fork", run_id, fork)
        if self.gives_json:
            self.set_status(201)
            self.give_json({"run_id": new})
        else:
            self.redirect(f"/runs/{new}", status=303)

    def _numbered(self, name: str) -> Any:
        """Return what was given; of a form, the field of that name as a number, or without it."""
        given = self.given_fields()
        if self.gives_json:
            return given
        text = str(given.pop(name, "")).strip()
        return {**given, name: whole_number(name, text)} if text else given


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
