"""The pages of hooks: /hooks"""

from __future__ import annotations

from urllib.parse import quote

from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.views.text.tables import hooks as hook_table
from sleipnir.worker.monitor.handlers.hooks.acting import HooksHandler
from sleipnir.worker.monitor.problems import problem_of


class HooksPage(HooksHandler):
    """The list."""

    async def get(self) -> None:
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
            )


class HookPage(HooksHandler):
    """One hook, what became of its last deliveries, and what can be done to it."""

    async def get(self, name: str) -> None:
        await self._show(name)

    async def post(self, name: str, deed: str) -> None:
        given = {"event_id": self.get_body_argument("event_id")} if deed == "redeliver" else {}
        try:
            _, document = await self.do(name, deed, given)
        except SleipnirError as error:
            self.set_status(problem_of(error).status)
            await self._show(name, problem=problem_of(error).message)
            return
        if deed == "rotate":
            await self._show(name, secret=document["secret"])
            return
        self.redirect("/hooks" if deed == "delete" else f"/hooks/{quote(name)}", status=303)

    async def _show(self, name: str, problem: str | None = None, secret: str | None = None) -> None:
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
                problem=problem,
                secret=secret,
            )
