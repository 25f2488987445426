"""The pages of triggers: /triggers"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.runs.inbound.triggers import USUAL_HEADERS
from sleipnir.scheduler.views.text.tables import triggers as trigger_table
from sleipnir.worker.monitor.bodies import TriggerBody
from sleipnir.worker.monitor.handlers.triggers.acting import TriggersHandler
from sleipnir.worker.monitor.handlers.triggers.form import (
    BLANK,
    filled_by,
    fixed_of,
    sent_fields,
    wanted_of,
)
from sleipnir.worker.monitor.problems import problem_of


class ShowingTriggers(TriggersHandler):
    """Shows triggers, with forms to make and change them."""

    async def give_list(
        self, fields: Mapping[str, str] = BLANK, problem: str | None = None
    ) -> None:
        """Respond with all triggers; `problem` is of the form, which is filled in by `fields`."""
        document = await self.listed()
        if self.wants == "json":
            self.give_json(document)
        elif self.wants == "text":
            self.give_lines(trigger_table.lines_of(document["triggers"]))
        else:
            self.give_page(
                "triggers.html",
                tab="triggers",
                title="Triggers",
                document=document,
                refused_count=trigger_table.refused_count,
                fields=fields,
                problem=problem,
            )

    async def give_one(
        self,
        name: str,
        *,
        secret: str | None = None,
        fields: Mapping[str, str] | None = None,
        problem: str | None = None,
    ) -> None:
        """Respond with one trigger.

        Args:
            secret: that it has been given now, which is shown this once.
            fields: what the form was filled in with that is refused for the `problem`.
        """
        trigger = await self.shown(name)
        if self.wants == "json":
            self.give_json(trigger)
        elif self.wants == "text":
            self.give_lines(trigger_table.page_of(trigger))
        else:
            self.give_page(
                "trigger.html",
                tab="triggers",
                title=f"Trigger {name}",
                trigger=trigger,
                usual_headers=USUAL_HEADERS,
                secret=secret,
                fields=fields or filled_by(trigger),
                is_edited=fields is not None,
                problem=problem,
            )


class TriggersPage(ShowingTriggers):
    """The list, and a form that makes one."""

    async def get(self) -> None:
        await self.give_list()

    async def post(self) -> None:
        fields = sent_fields(self)
        try:
            made = await self.created(TriggerBody.of(wanted_of(fields) | fixed_of(fields)))
        except SleipnirError as error:
            self.set_status(problem_of(error).status)
            await self.give_list(fields, problem_of(error).message)
            return
        self.set_status(201)
        await self.give_one(made["name"], secret=made["secret"])


class TriggerPage(ShowingTriggers):
    """One trigger, and what can be done to it."""

    async def get(self, name: str) -> None:
        await self.give_one(name)

    async def post(self, name: str, deed: str) -> None:
        fields = sent_fields(self) if deed == "edit" else None
        try:
            if fields is not None:
                await self.changed(name, wanted_of(fields))
            elif deed == "delete":
                await self.deleted(name)
            else:
                given = {"keep": self.get_body_argument("keep", "1d")}
                await self.give_one(name, secret=(await self.rotated(name, given))["secret"])
                return
        except SleipnirError as error:
            self.set_status(problem_of(error).status)
            await self.give_one(name, fields=fields, problem=problem_of(error).message)
            return
        address = "/triggers" if deed == "delete" else f"/triggers/{quote(name)}"
        self.redirect(address, status=303)
