"""Limits, pauses and budgets: their state, and changes."""

from __future__ import annotations

from collections.abc import Sequence

from sleipnir.scheduler.client.limits import report
from sleipnir.scheduler.client.limits.commands import LimitCommands
from sleipnir.scheduler.errors import SettingInvalid, SleipnirError
from sleipnir.scheduler.limits.rules import BUDGET_SETTINGS, LIMIT_SETTINGS, SCOPES
from sleipnir.scheduler.views import limits
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.economy import economy_document
from sleipnir.scheduler.views.limits import LimitAct
from sleipnir.scheduler.views.text.tables import economy as economy_table
from sleipnir.scheduler.views.text.tables import limits as limit_table
from sleipnir.worker.monitor.bodies import LimitsBody
from sleipnir.worker.monitor.charts.over_time import spark
from sleipnir.worker.monitor.handlers.acts import ActingHandler
from sleipnir.worker.monitor.handlers.base import bad_request
from sleipnir.worker.monitor.problems import problem_of


class LimitsHandler(ActingHandler):
    """The page; before a change is made, it shows what the change affects."""

    async def get(self) -> None:
        await self._show()

    async def post(self) -> None:
        kind = self.get_body_argument("act", "")
        if kind not in limits.KINDS:
            raise bad_request(f"act must be one of {', '.join(limits.KINDS)}")
        name, setting = (self.get_body_argument(each, "").strip() for each in ("name", "setting"))
        target = f"{name}.{setting}" if kind in ("set", "unset") else name
        text = self.get_body_argument("reason" if kind == "pause" else "value", "").strip()
        act = LimitAct(kind, target, text)
        if not self.get_body_argument("confirmed", ""):
            await self._show(act)
            return
        try:
            await self.change(act)
        except SleipnirError as error:
            self.set_status(problem_of(error).status)
            await self._show(act, problem_of(error).message)
            return
        self.redirect("/limits", status=303)

    async def change(self, act: LimitAct) -> None:
        """Make a change, and record it."""
        commands = LimitCommands(self.site.client.store)
        detail = await self.site.call(limits.told, commands, act)
        await self.act("limits", act.name, limits.perform, commands, act, detail=detail)

    async def _show(self, act: LimitAct | None = None, problem: str | None = None) -> None:
        client = self.site.client
        if self.wants == "text":
            commands = LimitCommands(client.store)
            rules = await self.site.call(commands.rules)
            found = await self.site.call(report.report, commands.limiter.queries, rules)
            batches = await self.site.call(economy_document, client.store, rules)
            lines = [
                *limit_table.lines_of(found, fit=False),
                *economy_table.lines_of(batches, fit=False),
            ]
            self.give_lines(lines)
            return
        document = await self.site.call(limits.limits_overview, client)
        if self.wants == "json":
            self.give_json(document)
            return
        touched = None
        if act is not None and problem is None:
            touched = await self.site.call(limits.touched_document, client, act.name)
        parts = (document["limits"], document["pauses"], document["budgets"])
        names = {each["name"] for part in parts for each in part}
        easy = [each for each in document["budgets"] if _has_room(each)]
        self.give_page(
            "limits.html",
            tab="limits",
            title="Limits",
            topics="inbox,limits",
            document=document,
            providers=_by_provider(document["limits"]),
            budgets=[each for each in document["budgets"] if each not in easy],
            easy=easy,
            act=act,
            problem=problem,
            touched=touched,
            argument=self.text_argument,
            names=sorted(names | set(SCOPES)),
            settings=sorted({*BUDGET_SETTINGS, *LIMIT_SETTINGS}),
            spark=spark,
        )


class LimitsApi(LimitsHandler):
    """GET and POST /api/v1/limits"""

    async def post(self) -> None:
        body = LimitsBody.of(self.json_body())
        if body.pause is not None and body.reason is None:
            raise SettingInvalid("a pause takes a `reason`")
        for act in _acts_of(body):
            await self.change(act)
        document: Document = await self.site.call(limits.limits_overview, self.site.client)
        self.give_json(document)


def _acts_of(body: LimitsBody) -> list[LimitAct]:
    acts = [LimitAct("set", place, str(value)) for place, value in body.set.items()]
    acts += [LimitAct("unset", place) for place in body.unset]
    if body.pause is not None:
        acts.append(LimitAct("pause", body.pause, body.reason or ""))
    if body.resume is not None:
        acts.append(LimitAct("resume", body.resume))
    if not acts:
        raise bad_request("the body must have one of set, unset, pause and resume")
    return acts


def _by_provider(limits: Sequence[Document]) -> dict[str, list[Document]]:
    """Return the lines of each provider, those of its models last."""
    found: dict[str, list[Document]] = {}
    for line in sorted(limits, key=lambda line: (line["name"], line["setting"])):
        found.setdefault(line["name"].partition(":")[0], []).append(line)
    return found


def _has_room(budget: Document) -> bool:
    """Whether this is the budget of one run, which holds nothing up and is less than half spent."""
    left = [(budget["left_usd"], budget["usd"]), (budget["left_tokens"], budget["tokens"])]
    return (
        budget["name"].startswith("run:")
        and not budget["waiting"]
        and all(most is None or 2 * rest > most for rest, most in left)
    )
