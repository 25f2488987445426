"""Agents: the list, one agent's page, and submitting runs."""

from __future__ import annotations

import json
import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.drawing.page import NodeMark, to_page_svg
from sleipnir.scheduler.errors import SleipnirError
from sleipnir.scheduler.process.drawing.processes import DrawingTooLarge
from sleipnir.scheduler.process.telemetry.identity import carried_by
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.testing.evaluation.documents import evaluations_document
from sleipnir.scheduler.views import agents, limits, submission, versions
from sleipnir.scheduler.views.submission import AcceptedRun, WantedRun
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.scheduler.views.versions import AgentVersion
from sleipnir.worker.monitor import formats
from sleipnir.worker.monitor.bodies import SubmitBody
from sleipnir.worker.monitor.charts.over_time import spark
from sleipnir.worker.monitor.drawings import DrawingNotReady
from sleipnir.worker.monitor.handlers.acts import ActingHandler
from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.handlers.engine import DocumentHandler
from sleipnir.worker.monitor.handlers.figures.agent import overview_of
from sleipnir.worker.monitor.handlers.run_graph import direction_of
from sleipnir.worker.monitor.handlers.runs import RunsHandler
from sleipnir.worker.monitor.handlers.starting.filled_form import (
    FilledForm,
    FormFields,
    filled_form,
    wanted_run,
)
from sleipnir.worker.monitor.handlers.starting.plan import plan_of_page
from sleipnir.worker.monitor.pages.code import files_html
from sleipnir.worker.monitor.problems import Refused, problem_of

if TYPE_CHECKING:
    from sleipnir.scheduler.views.graph.usual import UsualGraph
    from sleipnir.scheduler.views.types.agents import AgentDocument
    from sleipnir.scheduler.views.types.evaluations import ListedEvaluationDocument

# Runs whose inputs are offered again.
_LAST_INPUTS = 5
_PERIODS = {"today": "today", "7d": "7 d", "30d": "30 d"}
_SPENT = {"today": "today", "7d": "in the last 7 days", "30d": "in the last 30 days"}
# Of the list: the order that a head sorts by, its label, and whether the column has numbers.
_COLUMNS = (
    ("name", "Agent", False),
    (None, "Kind", False),
    ("runs", "Ended", True),
    (None, "", False),
    ("failed", "Failed", True),
    ("took", "Half within", True),
    (None, "95 % within", True),
    ("cost", "A run", True),
    ("spent", "Spent", True),
    (None, "", False),
    (None, "Tokens", True),
)


def _parts(document: AgentDocument) -> tuple[str, ...]:
    """Return the tabs of an agent's page."""
    kind = {"graph": ("graph",), "normal": ("instructions",)}.get(document["kind"], ())
    can_start = document["is_here"] and document["is_current"] and not document["current_problem"]
    return (
        "overview",
        *(("start", "plan") if can_start else ()),
        *kind,
        *(("files",) if document["files"] else ()),
        "evaluations",
        "versions",
    )


class AgentsHandler(DocumentHandler):
    tab, title = "agents", "Agents"

    async def get(self) -> None:
        period = self.choice_argument("period", tuple(agents.PERIODS), "7d")
        sort = self.choice_argument("sort", agents.ORDERS, "name")
        document = await self.site.call(
            agents.agents_document, self.site.client, period=period, sort=sort
        )
        self.give(
            masked_texts(document),
            sort=sort,
            columns=_COLUMNS,
            periods=tuple(agents.PERIODS),
            period_words=_PERIODS,
            spent_words=_SPENT,
            dearest=max((each["spent"]["cost_usd"] for each in document["agents"]), default=0.0),
            spark=spark,
        )


class SubmittingHandler(ActingHandler):
    """Shared by submitting from pages and by the API."""

    takes_values = True

    async def submit(self, wanted: WantedRun) -> AcceptedRun:
        """Submit a run in the trace of the request, and record who did."""
        traceparent, tracestate = carried_by(self.request.headers)
        wanted = replace(
            wanted, submitter=self.user, traceparent=traceparent, tracestate=tracestate
        )
        try:
            accepted = await self.site.call(
                submission.submit_run, self.site.client, wanted, self.user
            )
        except SleipnirError as error:
            await self.note("submit", wanted.agent, "", problem_of(error).message)
            raise
        if accepted.is_new:
            await self.note("submit", accepted.run_id, wanted.agent, "done")
        return accepted


class RunsApi(RunsHandler, SubmittingHandler):
    """GET /api/v1/runs lists runs, POST submits one."""

    async def get(self) -> None:
        self.give_json(await self.documents())

    async def post(self) -> None:
        body = SubmitBody.of(self.json_body())
        fields = body.model_dump(exclude={"vars"})
        accepted = await self.submit(WantedRun(**fields, variables=body.vars))
        self.set_status(201 if accepted.is_new else 200)
        self.give_json({"run_id": accepted.run_id})


class AgentReader(MonitorHandler):
    """Reads agents by name, `NAME` or `NAME@DIGEST`."""

    async def shown(self, reference: str) -> tuple[AgentDocument, AgentVersion]:
        """Return the agent's document, and the version that it is of."""
        name, _, digest = reference.partition("@")
        document, version = await self.site.call(
            versions.agent_document, self.site.client, name, digest or None
        )
        other = self.text_argument("against")
        if other is not None and document["digest"] is not None:
            new = document["digest"]
            compared = await self.site.call(
                versions.compared_document, self.site.client, name, other, new
            )
            document = {**document, "compared": compared}
        masked = self.site.masks.of_version
        return await self.site.call(masked, document, document["digest"], name), version


class AgentApi(AgentReader):
    """GET /api/v1/agents/NAME[@DIGEST]"""

    async def get(self, reference: str) -> None:
        self.give_json((await self.shown(reference))[0])


class AgentPage(AgentReader, SubmittingHandler):
    """/agents/NAME[@DIGEST], with the form to submit it."""

    async def get(self, reference: str) -> None:
        again = self.text_argument("again")
        if again is not None:
            await self._show(reference, await self._as_before(reference, again), again)
            return
        await self._show(reference, FilledForm(prompt=self.text_argument("prompt") or ""))

    async def _as_before(self, reference: str, run_id: str) -> FilledForm:
        """Return what a run of the agent was submitted with, without its secrets."""
        client = self.site.client
        run = await self.site.call(client.queries.run, run_id)
        if run.agent != reference.partition("@")[0]:
            raise bad_request(f"run {run_id} is of agent '{run.agent}'")
        submitted = await self.site.call(submission.submitted_document, client, run)
        given = await self.site.call(self.site.masks.masked, submitted, run)
        return FilledForm(
            prompt=given["prompt"],
            values=given["state"],
            workdir=given["workdir"] or "",
            variables=given["variables"],
        )

    async def post(self, reference: str) -> None:
        name, filled = reference.partition("@")[0], filled_form(self.request)
        document, _ = await self.shown(name)
        hidden = frozenset(each["name"] for each in document["variables"] if each["secret"])
        try:
            wanted = wanted_run(name, FormFields.of(document, filled), filled)
            if self.get_body_argument("act", "") == "command":
                command = submission.command_of(wanted, hidden)
                await self._show(reference, replace(filled, command=command))
                return
            accepted = await self.submit(wanted)
        except (SleipnirError, Refused) as error:
            problem = problem_of(error)
            self.set_status(problem.status)
            await self._show(reference, replace(filled, problem=problem.message))
            return
        self.redirect(f"/runs/{accepted.run_id}", status=303)

    def _inputs(self, name: str) -> dict[str, Any]:
        """Return what the agent's last runs were given, and how many of them are open."""
        client = self.site.client
        rows = client.queries.list_runs(RunFilter(agents=(name,)), 4 * _LAST_INPUTS).entries
        prompts = client.queries.prompts([row.run_id for row in rows])
        found: dict[str, str] = {}
        for row, prompt in zip(rows, prompts, strict=True):
            found.setdefault(prompt, row.run_id)
        last = [{"prompt": prompt, "run_id": run_id} for prompt, run_id in found.items() if prompt]
        counts, _ = client.queries.counts_by_status(RunFilter(agents=(name,)))
        return {
            "last_inputs": masked_texts(last[:_LAST_INPUTS]),
            "open_runs": counts["open and waiting"],
        }

    async def _show(self, reference: str, filled: FilledForm, again: str | None = None) -> None:
        document, version = await self.shown(reference)
        if self.wants == "json":
            self.give_json(document)
            return
        part = self._part(document, filled, again)
        fields = FormFields.of(document, filled).without_secrets()
        others = {
            key: value
            for key, value in filled.values.items()
            if key not in document["initial_state"]
        }
        if others:
            filled = replace(filled, state=json.dumps(others, ensure_ascii=False, indent=2))
        budgets = (await self.site.call(limits.limits_document, self.site.client))["budgets"]
        self.give_page(
            "agent.html",
            tab="agents",
            title=f"Agent {document['name']}",
            agent=document,
            files=await self.site.call(files_html, document["files"]),
            **await self._drawn(document, version, part),
            direction=direction_of(self),
            filled=filled,
            fields=fields,
            most_bytes=self.site.client.store.settings.value_limit_bytes,
            **await self.site.call(self._inputs, document["name"]),
            again=again,
            # With this key, sending the form twice submits only once.
            key=filled.key or secrets.token_hex(16),
            budget=next((each for each in budgets if each["name"] == "day"), None),
            against=self.text_argument("against"),
            part=part,
            parts=[
                (name.capitalize(), self.with_query(tab=name, against=None, again=None), None)
                for name in _parts(document)
            ],
            **(await self._overview(document) if part == "overview" else {}),
            **(await self._planned(document["name"]) if part == "plan" else {}),
            evaluations=await self._evaluations(document["name"], part),
        )

    async def _drawn(
        self, document: AgentDocument, version: AgentVersion, part: str
    ) -> dict[str, Any]:
        """Return the drawing on the tab of the graph, or why there is none."""
        drawn: dict[str, Any] = {"svg": None, "undrawn": None, "usual_runs": 0}
        if part != "graph" or version.outline is None or document["digest"] is None:
            return drawn
        usual = await self.site.call(
            self.site.usual_graphs.of, document["name"], document["digest"], version.outline
        )
        drawn["usual_runs"] = usual.runs if usual.is_known else 0
        try:
            drawn["svg"] = await self._svg(document, version, usual)
        except (DrawingTooLarge, DrawingNotReady) as error:
            drawn["undrawn"] = str(error)
        return drawn

    def _part(self, document: AgentDocument, filled: FilledForm, again: str | None) -> str:
        """Return the tab that is asked for; else the one that the address is about."""
        is_filled = filled.is_begun or again
        if self.request.method == "POST" or (is_filled and not self.text_argument("tab")):
            return "start"
        first = "versions" if self.text_argument("against") else "overview"
        return self.choice_argument("tab", _parts(document), first)

    async def _planned(self, name: str) -> dict[str, Any]:
        return await self.site.call(plan_of_page, self.site.client, name)

    async def _evaluations(self, name: str, part: str) -> list[ListedEvaluationDocument]:
        """Return the evaluations on their tab."""
        if part != "evaluations":
            return []
        found = await self.site.call(evaluations_document, self.site.client, name)
        return masked_texts(found["evaluations"])

    async def _overview(self, document: AgentDocument) -> dict[str, Any]:
        return await self.site.call(overview_of, self.site, document["name"], document["spent"])

    async def _svg(self, document: AgentDocument, version: AgentVersion, usual: UsualGraph) -> str:
        """Return the drawing, with the share of runs that took a route; raises as `picture`."""
        drawing = await self.site.call(self.site.drawings.of_version, version)
        taken = usual.taken_in if usual.is_known else {}
        drawing = await self.site.call(drawing.including, sorted(taken))
        marks = {
            node["id"]: NodeMark("defined", node["type"], href=f"#node-{number}")
            for number, node in enumerate(document["nodes"])
        }
        # What all runs do needs no number.
        notes = {
            route: formats.share(runs, usual.runs)
            for route, runs in drawing.taken_between(taken).items()
            if 0 < runs < usual.runs
        }
        title = f"graph of {document['name']}"
        picture = await self.site.drawings.picture(drawing, direction_of(self))
        return await self.site.call(to_page_svg, picture, title, marks, {}, notes)
