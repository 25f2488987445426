"""What tools do with runs, by whomever they are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from mcp_types import CallToolResult

from sleipnir.scheduler.errors import RunNotFound, SleipnirError
from sleipnir.scheduler.runs.model import Question, Run
from sleipnir.scheduler.views.submission import submit_run
from sleipnir.worker.monitor.serving.engine import ServedEngine
from sleipnir.worker.monitor.serving.following import RunFollower
from sleipnir.worker.monitor.serving.mcp.callers import VIA, ToolCaller
from sleipnir.worker.monitor.serving.mcp.results import result_of
from sleipnir.worker.monitor.serving.mcp.tools import promises_object, wanted_run

T = TypeVar("T")

_CANCELLED = "cancelled by its MCP client"


class ServedRuns:
    """Starts runs of served agents, and acts on them; what was refused is recorded, too."""

    def __init__(self, engine: ServedEngine) -> None:
        self.engine = engine
        self._client = engine.client

    def start(
        self, tool: str, arguments: Mapping[str, Any], caller: ToolCaller, key: str | None
    ) -> str | None:
        """Start a run and return its id; None if there is no such tool.

        With a `key` that is known, it is the run that was started with it.

        Raises:
            SleipnirError: it was not accepted.
        """
        wanted = wanted_run(self.engine.agents, tool, arguments)
        if wanted is None:
            return None
        wanted = replace(
            wanted,
            key=key,
            user=caller.name,
            traceparent=caller.traceparent,
            tracestate=caller.tracestate,
        )
        try:
            accepted = submit_run(self._client, wanted, caller.name)
        except SleipnirError as error:
            caller.note(self._client, "submit", wanted.agent, outcome=str(error))
            raise
        if accepted.is_new:
            caller.note(self._client, "submit", accepted.run_id, detail=wanted.agent)
        return accepted.run_id

    def find(self, run_id: str) -> Run:
        """Return a run that a client may know.

        Raises:
            RunNotFound: there is none of that id, or it is one of an agent that is not served.
        """
        run = self._client.run(run_id)
        if run.parent is not None or not self.engine.agents.includes(run.agent):
            raise RunNotFound(run_id)
        return run

    def questions(self, run_id: str) -> list[Question]:
        """Return the open questions of a run, or else of its child runs, the oldest first."""
        found = self._client.open_questions(run_id)
        return sorted(found, key=lambda question: question.asked)

    def answer(self, question: Question, text: str, caller: ToolCaller) -> None:
        """Answer a question.

        Raises:
            AnswerRefused: it is not open any more, or the answer is not what it asks for.
        """
        outcome = {}
        try:
            self._client.answer_question(question, text, by=caller.name, via=VIA)
        except SleipnirError as error:
            outcome = {"outcome": str(error)}
            raise
        finally:
            place = question.question_id
            caller.note(self._client, "answer", place, detail=text, question=question, **outcome)

    def cancel(self, run_id: str, caller: ToolCaller) -> None:
        """Cancel a run; nothing happens to one that has ended."""
        if self._client.cancel(run_id, _CANCELLED):
            caller.note(self._client, "cancel", run_id)

    def result(self, run: Run) -> CallToolResult:
        """Return the result of a run that has ended."""
        value, output = self.without_secrets([run.value, run.output or ""], run)
        promises = not isinstance(value, dict) and promises_object(self.engine.agents, run.agent)
        return result_of(run, output, value, promises_object=promises)

    def without_secrets(self, value: T, run: Run) -> T:
        """Return a value of a run as its client may see it."""
        return self.engine.masks.masked(value, run)

    def follower(self, run_id: str) -> RunFollower:
        """Return what follows a run from its beginning."""
        return self.engine.follower(run_id)
