"""One call of a tool: it starts a run or finds one, and waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    ElicitationCapability,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sleipnir.scheduler.errors import AnswerInvalid, AnswerRefused
from sleipnir.scheduler.runs.events import TextStreamed
from sleipnir.scheduler.runs.model import Question, Run
from sleipnir.scheduler.runs.narration import render
from sleipnir.worker.monitor.serving.following import RunFollower, RunNews
from sleipnir.worker.monitor.serving.mcp.callers import ToolCaller
from sleipnir.worker.monitor.serving.mcp.results import (
    answer_in,
    asked,
    elicitation,
    told,
    unfinished,
)
from sleipnir.worker.monitor.serving.mcp.runs import ServedRuns

_LOOK_S = 5.0
_CAN_ASK = ClientCapabilities(elicitation=ElicitationCapability())


class WaitingCall:
    """Waits for a run on behalf of one request.

    Args:
        wait_s: for how long.
    """

    def __init__(
        self, runs: ServedRuns, ctx: ServerRequestContext[Any], caller: ToolCaller, wait_s: float
    ) -> None:
        self._runs = runs
        self._ctx = ctx
        self._caller = caller
        self._wait_s = wait_s
        self._lines = 0  # that were told

    async def resume(
        self, run: Run, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Take what a client's user has answered, and wait on.

        Raises:
            RunNotFound: the run is no longer stored.
        """
        follower = self._runs.follower(run.run_id)
        await follower.skip()
        given = {key: answer.model_dump() for key, answer in (params.input_responses or {}).items()}
        for question in await asyncio.to_thread(self._runs.questions, run.run_id):
            if question.question_id in given:
                refused = await self._take(follower, question, given[question.question_id])
                if refused is not None:
                    return refused
        return await self.wait(follower)

    async def wait(self, follower: RunFollower) -> CallToolResult | InputRequiredResult:
        """Wait until the run has ended or asks, or the time is over.

        Raises:
            RunNotFound: the run is no longer stored.
        """
        until = monotonic() + self._wait_s
        while True:
            left_s = max(0.0, min(_LOOK_S, until - monotonic()))
            with anyio.CancelScope(shield=True):  # an answer of Redis is read as a whole
                news = await follower.look(int(1000 * left_s))
            await self._report(news, follower.run_id)
            if news.run is not None and news.question is None:
                return await asyncio.to_thread(self._runs.result, news.run)
            if news.question is not None:
                result = await self._ask(follower, news.question)
                if result is not None:
                    return result
                until = monotonic() + self._wait_s
            elif monotonic() >= until:
                return unfinished(follower.run_id)

    # ---- progress

    async def _report(self, news: RunNews, run_id: str) -> None:
        lines = list(_lines(news, run_id))
        if not lines:
            return
        run = await asyncio.to_thread(self._runs.find, run_id)
        for line in await asyncio.to_thread(self._runs.without_secrets, lines, run):
            self._lines += 1
            await self._ctx.session.report_progress(self._lines, message=line)

    # ---- questions

    async def _ask(
        self, follower: RunFollower, question: Question, problem: str = ""
    ) -> CallToolResult | InputRequiredResult | None:
        """Have the client's user answer; None if that was done, else what the call returns."""
        text = await asyncio.to_thread(self._runs.engine.text_of, question)
        request = elicitation(question, f"{problem}\n\n{text}".lstrip())
        session, run_id = self._ctx.session, follower.run_id
        can_ask = session.check_client_capability(_CAN_ASK)
        if can_ask and self._ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            return InputRequiredResult(
                input_requests={question.question_id: request}, request_state=run_id
            )
        if not (can_ask and session.can_send_request):
            return asked(run_id, question, text)
        params = request.params
        assert params.mode == "form"
        given = await session.elicit_form(
            params.message, params.requested_schema, self._ctx.request_id
        )
        return await self._take(follower, question, given.model_dump())

    async def _take(
        self, follower: RunFollower, question: Question, given: dict[str, Any]
    ) -> CallToolResult | InputRequiredResult | None:
        """Answer as the client's user did; return what the call returns if it stays open."""
        answer = answer_in(given)
        if answer is None:
            text = await asyncio.to_thread(self._runs.engine.text_of, question)
            return asked(follower.run_id, question, text)
        try:
            await asyncio.to_thread(self._runs.answer, question, answer, self._caller)
        except AnswerInvalid as error:
            return await self._ask(follower, question, str(error))
        except AnswerRefused:  # somebody else has answered it
            pass
        return None


async def answered_by_model(
    runs: ServedRuns, run: Run, text: str, caller: ToolCaller
) -> CallToolResult | None:
    """Answer a run's question as the client's model says; return why not, if so.

    Consent to a guarded call is never the model's to give.
    """
    questions = await asyncio.to_thread(runs.questions, run.run_id)
    if not questions:
        return told(f"run {run.run_id} asks nothing now", run.run_id, is_error=True)
    question = questions[0]
    if question.is_guard:
        return asked(run.run_id, question, await asyncio.to_thread(runs.engine.text_of, question))
    try:
        await asyncio.to_thread(runs.answer, question, text, caller)
    except AnswerRefused as error:
        return told(str(error), run.run_id, is_error=True)
    return None


def _lines(news: RunNews, run_id: str) -> Iterator[str]:
    for of, entry in news.entries:
        if of == run_id and not isinstance(entry.event, TextStreamed):
            yield from render(entry.event)
