"""The pages of hooks: /hooks"""

from __future__ import annotations

from urllib.parse import quote

from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.runs.hooks.model import EVENTS
from sleipnir.scheduler.views.text.tables import hooks as hook_table
from sleipnir.worker.monitor.bodies import HookBody
from sleipnir.worker.monitor.handlers.hooks.acting import HooksHandler
from sleipnir.worker.monitor.handlers.hooks.form import BLANK, HookFields, filled_by, sent_fields
from sleipnir.worker.monitor.problems import problem_of


class ShowingHooks(HooksHandler):
    """Shows hooks, with forms to make and change them."""

    async def give_list(self, fields: HookFields = BLANK, problem: str | None = None) -> None:
        """Respond with all hooks; `problem` is of the form, which is filled in by `fields`."""
        document = await self.listed()
        if self.wants == "json":
            self.give_json(document)
        elif self.wants == "text":
            self.give_lines(hook_table.lines_of(document["hooks"]))
        else:
            self.give_page(
                "hooks.html",
                tab="hooks",
                title="Hooks",
                document=document,
                events_text=hook_table.events_text,
                state_of=hook_table.state_of,
                all_events=EVENTS,
                fields=fields,
                problem=problem,
            )

    async def give_one(
        self,
        name: str,
        *,
        secret: str | None = None,
        fields: HookFields | None = None,
        problem: str | None = None,
    ) -> None:
        """Respond with one hook.

        Args:
            secret: that it has been given now, which is shown this once.
            fields: what the form was filled in with that is refused for the `problem`.
        """
        hook = await self.shown(name)
        attempts = (await self.attempts(name))["deliveries"]
        if self.wants == "json":
            self.give_json({**hook, "deliveries": attempts})
        elif self.wants == "text":
            self.give_lines([*hook_table.page_of(hook), *hook_table.attempt_lines(attempts)])
        else:
            self.give_page(
                "hook.html",
                tab="hooks",
                title=f"Hook {name}",
                hook=hook,
                attempts=attempts,
                about=hook_table.subject_text,
                all_events=EVENTS,
                fields=fields or filled_by(hook),
                is_edited=fields is not None,
                problem=problem,
                secret=secret,
            )


class HooksPage(ShowingHooks):
    """The list, and a form that makes one."""

    async def get(self) -> None:
        await self.give_list()

    async def post(self) -> None:
        fields = sent_fields(self)
        try:
            made = await self.created(HookBody.of({"name": fields.name, **fields.wanted()}))
        except SleipnirError as error:
            self.set_status(problem_of(error).status)
            await self.give_list(fields, problem_of(error).message)
            return
        self.set_status(201)
        await self.give_one(made["name"], secret=made["secret"])


class HookPage(ShowingHooks):
    """One hook, what became of its last deliveries, and what can be done to it."""

    async def get(self, name: str) -> None:
        await self.give_one(name)

    async def post(self, name: str, deed: str) -> None:
        fields = sent_fields(self) if deed == "edit" else None
        given = {"event_id": self.get_body_argument("event_id")} if deed == "redeliver" else {}
        try:
            if fields is not None:
                await self.changed(name, fields.wanted())
            else:
                _, document = await self.do(name, deed, given)
        except SleipnirError as error:
            self.set_status(problem_of(error).status)
            await self.give_one(name, fields=fields, problem=problem_of(error).message)
            return
        if deed == "rotate":
            await self.give_one(name, secret=document["secret"])
            return
        self.redirect("/hooks" if deed == "delete" else f"/hooks/{quote(name)}", status=303)
