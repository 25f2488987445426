"""What a client is told of a run: its result, its question, or that it has not ended."""

from __future__ import annotations

from typing import Any

from mcp_types import CallToolResult, ElicitRequest, ElicitRequestFormParams, TextContent

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.model import Question, Run, Status
from sleipnir.worker.monitor.serving.mcp.outputs import RUN_ID
from sleipnir.worker.monitor.serving.mcp.tools import RUN_RESULT

RUN_ID_META = "sleipnir/run_id"
_ANSWER = "answer"


def told(text: str, run_id: str, *, is_error: bool = False, value: Any = None) -> CallToolResult:
    """Return a text, and a value if it is an object, about a run."""
    return CallToolResult(
        content=[TextContent(text=text)],
        structured_content=value if isinstance(value, dict) else None,
        is_error=is_error,
        _meta={RUN_ID_META: run_id},
    )


def result_of(
    run: Run, output: str, value: Any, *, promises_object: bool = False
) -> CallToolResult:
    """Return the result of a run that has ended; `output` and `value` are without secrets.

    Args:
        promises_object: the tool has said what object it returns; another result is an error.
    """
    if run.status != Status.SUCCEEDED:
        return told(failure_text(run), run.run_id, is_error=True)
    if promises_object and not isinstance(value, dict):
        text = f"run {run.run_id} has not come to a result of the form that this tool returns"
        return told(f"{text}: {output}" if output else text, run.run_id, is_error=True)
    return told(output, run.run_id, value=value)


def failure_text(run: Run) -> str:
    """Return why a run has no result."""
    ended = f"run {run.run_id} ended as {run.status}"
    if run.failure is None:
        return ended
    code = f"{run.failure.code} " if run.status == Status.FAILED else ""
    return f"{ended}: {code}{run.failure.message}"


def unfinished(run_id: str) -> CallToolResult:
    """Return that a run goes on, and how to wait for it."""
    return told(
        f"Run {run_id} has not ended yet. Call {RUN_RESULT} with run_id {run_id} to wait for it.",
        run_id,
        value={RUN_ID: run_id, "status": "running"},
    )


def asked(run_id: str, question: Question, text: str) -> CallToolResult:
    """Return a question to a client that cannot ask its user; consent is left to people."""
    how = f"Answer it by {RUN_RESULT} with run_id {run_id} and the answer."
    if question.is_guard:
        how = (
            "Only a person can consent to this call, in the inbox or by `sleipnir answer "
            f"{question.run_id} --question {question.question_id} yes`. "
            f"Then call {RUN_RESULT} with run_id {run_id}."
        )
    value = {RUN_ID: run_id, "status": "waiting"}
    return told(f"Run {run_id} asks:\n\n{text}\n\n{how}", run_id, value=value)


def elicitation(question: Question, text: str) -> ElicitRequest:
    """Return a question as a request to the client's user."""
    params = ElicitRequestFormParams(message=text, requested_schema=_schema(question))
    return ElicitRequest(params=params)


def _schema(question: Question) -> dict[str, Any]:
    options = list(question.options)
    choices: dict[str, Any] = {"type": "string", **({"enum": options} if options else {})}
    if question.kind == "confirm":
        choices = {"type": "string", "enum": ["yes", "no"]}
    elif question.kind == "checkbox" and options:
        choices = {"type": "array", "items": choices}
    if question.default is not None and choices["type"] == "string":
        choices["default"] = question.default
    return {"type": "object", "properties": {_ANSWER: choices}, "required": [_ANSWER]}


def answer_in(response: Any) -> str | None:
    """Return what a client's user has answered a question with; None if it was not answered."""
    if not isinstance(response, dict) or response.get("action") != "accept":
        return None
    content = response.get("content")
    given = content.get(_ANSWER) if isinstance(content, dict) else None
    if given is None or isinstance(given, str):
        return given
    return encode(given)
