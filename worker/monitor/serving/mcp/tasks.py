"""The tasks extension of MCP: calls that return at once, and clients that ask how they are going.

The library knows how extensions are negotiated, but nothing of this one. A task is a run.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ClientCapabilities,
    RequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from sleipnir.scheduler.errors import AnswerInvalid, AnswerRefused, RunNotFound
from sleipnir.scheduler.runs.model import Question, Run, Status
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.worker.monitor.serving.mcp.callers import ToolCaller
from sleipnir.worker.monitor.serving.mcp.results import (
    answer_in,
    elicitation,
    failure_text,
)
from sleipnir.worker.monitor.serving.mcp.runs import ServedRuns

EXTENSION: Final = "io.modelcontextprotocol/tasks"
_POLL_MS = 1_000
_ENDED = {
    Status.SUCCEEDED: "completed",
    Status.FAILED: "failed",
    Status.TIMED_OUT: "failed",
    Status.CANCELLED: "cancelled",
}
_DECLARED = ClientCapabilities(extensions={EXTENSION: {}})


class TaskParams(RequestParams):
    """Names a task."""

    task_id: str


class TaskUpdateParams(TaskParams):
    """Answers to the questions of a task, by their ids."""

    input_responses: dict[str, Any]


def declares_tasks(session: ServerSession) -> bool:
    """Return whether a client can be given a task in place of a result."""
    modern = session.protocol_version in MODERN_PROTOCOL_VERSIONS
    return modern and session.check_client_capability(_DECLARED)


class TaskMethods:
    """The methods of the extension."""

    def __init__(self, runs: ServedRuns) -> None:
        self._runs = runs

    async def created(self, run_id: str) -> dict[str, Any]:
        """Return what a call returns in place of its result."""
        run = await asyncio.to_thread(self._runs.find, run_id)
        return {"resultType": "task", **self._head(run, "working")}

    async def get(self, session: ServerSession, params: TaskParams) -> dict[str, Any]:
        """tasks/get"""
        _require_declared(session)
        return await asyncio.to_thread(self._document, params.task_id)

    async def update(
        self, session: ServerSession, params: TaskUpdateParams, caller: ToolCaller
    ) -> dict[str, Any]:
        """tasks/update: answers to what is not asked now are ignored."""
        _require_declared(session)
        await asyncio.to_thread(self._update, params, caller)
        return {}

    async def cancel(
        self, session: ServerSession, params: TaskParams, caller: ToolCaller
    ) -> dict[str, Any]:
        """tasks/cancel"""
        _require_declared(session)
        run = await asyncio.to_thread(self._found, params.task_id)
        await asyncio.to_thread(self._runs.cancel, run.run_id, caller)
        return {}

    def _found(self, run_id: str) -> Run:
        try:
            return self._runs.find(run_id)
        except RunNotFound as error:
            raise MCPError(INVALID_PARAMS, f"there is no task {run_id[:80]}") from error

    def _update(self, params: TaskUpdateParams, caller: ToolCaller) -> None:
        run = self._found(params.task_id)
        for question in self._runs.questions(run.run_id):
            text = answer_in(params.input_responses.get(question.question_id))
            if text is None:
                continue
            try:
                self._runs.answer(question, text, caller)
            except AnswerInvalid as error:
                raise MCPError(INVALID_PARAMS, str(error)) from error
            except AnswerRefused:  # somebody else has answered it
                continue

    def _document(self, run_id: str) -> dict[str, Any]:
        run = self._found(run_id)
        if run.is_final:
            return {**self._head(run, _ENDED[run.status]), **self._end(run)}
        questions = self._runs.questions(run_id)
        if not questions:
            return self._head(run, "working")
        requests = {each.question_id: self._request(each) for each in questions}
        return {**self._head(run, "input_required"), "inputRequests": requests}

    def _request(self, question: Question) -> dict[str, Any]:
        request = elicitation(question, self._runs.engine.text_of(question))
        return request.model_dump(by_alias=True, mode="json", exclude_none=True)

    def _end(self, run: Run) -> dict[str, Any]:
        if run.status == Status.SUCCEEDED:
            result = self._runs.result(run)
            return {"result": result.model_dump(by_alias=True, mode="json", exclude_none=True)}
        if run.status == Status.CANCELLED:
            return {"statusMessage": failure_text(run)}
        code = run.failure.code if run.failure is not None else str(run.status)
        error = {"code": INTERNAL_ERROR, "message": failure_text(run), "data": {"code": code}}
        return {"statusMessage": failure_text(run), "error": error}

    def _head(self, run: Run, status: str) -> dict[str, Any]:
        newest = self._runs.engine.client.queries.newest_entry(run.run_id)
        told_at = run.created_at if newest is None else max(run.created_at, newest.at)
        return {
            "taskId": run.run_id,
            "status": status,
            "createdAt": to_rfc3339(run.created_at),
            "lastUpdatedAt": to_rfc3339(told_at),
            "ttlMs": None,  # it is kept for a time after it has ended, whenever that is
            "pollIntervalMs": _POLL_MS,
        }


def _require_declared(session: ServerSession) -> None:
    if not declares_tasks(session):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "Missing required client capability",
            {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
        )
