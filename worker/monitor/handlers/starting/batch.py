"""A batch of an agent over a file: what is in the file, and then the start."""

from __future__ import annotations

import asyncio
from asyncio import Future, shield, wait_for
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import quote

from sleipnir.scheduler.batch.uploaded import (
    LookedAt,
    UploadedFile,
    guessed_columns,
    look_at,
    submit_file,
    targets_of,
)
from sleipnir.scheduler.client.preparation import PreparedAgent
from sleipnir.scheduler.errors import SleipnirError, SubmissionRefused
from sleipnir.scheduler.process.telemetry.identity import carried_by
from sleipnir.scheduler.runs.submit import Request
from sleipnir.scheduler.store.audit.log import DONE
from sleipnir.scheduler.views import agents, batches, limits
from sleipnir.scheduler.views.submission import require_name
from sleipnir.scheduler.views.text.masked import masked_texts
from sleipnir.worker.monitor.bodies import BatchBody
from sleipnir.worker.monitor.handlers.acts import ActingHandler
from sleipnir.worker.monitor.handlers.batches import BatchesHandler
from sleipnir.worker.monitor.pages.uploads import SentFile
from sleipnir.worker.monitor.problems import Problem, Refused, bad_request, problem_of

_COLUMN = "column-"
_MOST_COLUMNS = 50  # that are shown
# From so many runs on, their number has to be typed.
_MANY = 100
# Lines are submitted in the background; what goes wrong at once is told on the page.
_AT_ONCE_S = 2.0
_GONE = Problem(410, "gone", "the file is no longer stored", "choose it again")


class BatchStarter(ActingHandler):
    """Shared by the page and the API."""

    takes_values = True

    async def start(
        self,
        agent: PreparedAgent,
        file: UploadedFile,
        name: str,
        budget_usd: float | None,
        webhook: str | None = None,
    ) -> None:
        """Submit a run for each line, in the background if that takes long."""
        client, note = self.site.client, self.audit_entry("batch", agent.name)
        row = await self.site.call(batches.batch_page, client.queries, name)
        if row is not None and row["agent"] not in (None, agent.name):
            raise SubmissionRefused(
                f"the batch '{name}' is of agent '{row['agent']}'; choose another name"
            )

        traceparent, tracestate = carried_by(self.request.headers)
        request = Request(
            submitter=self.user, webhook=webhook, traceparent=traceparent, tracestate=tracestate
        )

        def submit() -> None:
            try:
                submit_file(client, agent, file, name, budget_usd, request)
            except Exception as error:
                note(name, problem_of(error).message)
                raise
            note(name, DONE)

        loop = asyncio.get_running_loop()
        submitting: Future[None] = loop.run_in_executor(self.site.uploads.thread, submit)
        submitting.add_done_callback(_retrieved)
        with suppress(TimeoutError):
            await wait_for(shield(submitting), _AT_ONCE_S)

    async def prepared(self, name: str) -> PreparedAgent:
        """Return the agent of a name, as it is now."""
        return await self.site.call(self._prepared, name)

    def _prepared(self, name: str) -> PreparedAgent:
        require_name(name)  # remote users must not choose which files are run
        return self.site.client.prepare(name)


def _retrieved(submitting: Future[None]) -> None:
    """Take the outcome of a submission that nobody waits for; it is in the audit log."""
    if not submitting.cancelled():
        submitting.exception()


class BatchPage(BatchStarter):
    """/agents/NAME/batch: POST shows what is in a file, and once that is confirmed, starts."""

    async def post(self, name: str) -> None:
        agent = await self.prepared(name)
        file_id, sent = self._sent()
        file = UploadedFile(
            sent.name,
            sent.content,
            self._columns(),
            skip_bad=bool(self.get_body_argument("skip_bad", "")),
        )
        if not any(map(_is_column, self.request.body_arguments)):
            guessed = await self.site.call(guessed_columns, agent.graph, file)
            file = replace(file, columns=guessed)
        batch = self.get_body_argument("name", "").strip() or file.batch_of(agent.name)
        budget = self.get_body_argument("budget", "").strip()
        looked = await self.site.call(look_at, self.site.client, agent, file)
        problem = None
        if self.get_body_argument("act", "") == "start":
            try:
                self._require_sure(looked)
                await self.start(agent, file, batch, _usd(budget))
            except (Refused, SleipnirError) as error:
                problem = problem_of(error)
                self.set_status(problem.status)
            else:
                self.redirect(f"/batches/{quote(batch, safe='')}", status=303)
                return
        await self._show(agent, file, looked, file_id, name=batch, budget=budget, problem=problem)

    def _sent(self) -> tuple[str, SentFile]:
        """Return the file with its id: a new one, or one sent before."""
        reader = self.reader
        for each in self.request.files.get("file", ()):
            if each["filename"]:
                sent = SentFile(reader, each["filename"], each["body"])
                return self.site.uploads.keep(sent), sent
        file_id = self.get_body_argument("upload", "")
        if not file_id:
            raise bad_request("choose a file with a line for each run")
        found = self.site.uploads.find(file_id, reader)
        if found is None:
            raise Refused(_GONE)
        return file_id, found

    def _columns(self) -> dict[str, str]:
        names = filter(_is_column, self.request.body_arguments)
        given = {each.removeprefix(_COLUMN): self.get_body_argument(each) for each in names}
        return {name: to for name, to in given.items() if to != name}

    def _require_sure(self, looked: LookedAt) -> None:
        typed = self.get_body_argument("typed", "").replace(",", "").strip()
        if looked.lines >= _MANY and typed != str(looked.lines):
            raise Refused(Problem(422, "invalid", "type the number of runs to start them"))

    async def _show(
        self,
        agent: PreparedAgent,
        file: UploadedFile,
        looked: LookedAt,
        file_id: str,
        **values: Any,
    ) -> None:
        client = self.site.client
        budgets = (await self.site.call(limits.limits_document, client))["budgets"]
        self.give_page(
            "agent_batch.html",
            tab="agents",
            title=f"Batch of {agent.name}",
            crumbs=[(agent.name, f"/agents/{quote(agent.name, safe='')}"), ("Batch", None)],
            agent=agent.name,
            file=file,
            is_table=file.format == "csv",
            looked=masked_texts(looked.first),
            found=looked,
            most_columns=_MOST_COLUMNS,
            targets=targets_of(agent.graph),
            upload=file_id,
            must_type=looked.lines >= _MANY,
            typical=await self.site.call(self._typical, agent.name),
            day=next((each for each in budgets if each["name"] == "day"), None),
            **values,
        )

    def _typical(self, name: str) -> Any:
        client = self.site.client
        return agents.typical_document(agents.newest_runs(client, name), client.queries.now_ms())


def _is_column(name: str) -> bool:
    return name.startswith(_COLUMN)


def _usd(text: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise Refused(Problem(422, "invalid", "the budget must be a number of USD above 0"))
    return value


class BatchesApi(BatchesHandler, BatchStarter):
    """GET /api/v1/batches lists batches, POST starts one."""

    async def post(self) -> None:
        body = BatchBody.of(self.json_body())
        agent = await self.prepared(body.agent)
        content = body.lines.encode()
        file = UploadedFile(f"lines.{body.format}", content, body.columns, skip_bad=body.skip_bad)
        name = body.name or file.batch_of(agent.name)
        await self.site.call(partial(look_at, self.site.client, agent, file))
        await self.start(agent, file, name, body.budget_usd, body.webhook)
        self.set_status(202)
        self.give_json({"batch": name})
