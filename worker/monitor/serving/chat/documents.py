"""What clients of the OpenAI API read: completions, chunks of a stream, errors."""

from __future__ import annotations

import json
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Run, Usage
from sleipnir.worker.monitor.problems import Problem

_KINDS = {
    401: "authentication_error",
    403: "permission_error",
    429: "rate_limit_error",
}
DONE = "data: [DONE]\n\n"
PING = ": still running\n\n"


@dataclass(frozen=True, slots=True)
class CompletionHead:
    """What all documents about one reply begin with."""

    run_id: str
    model: str
    created: int  # s

    def _document(self, kind: str, **fields: Any) -> dict[str, Any]:
        named = {"id": f"chatcmpl-{self.run_id}", "object": kind, "created": self.created}
        return {**named, "model": self.model, **fields}

    def completion(self, text: str, usage: Usage) -> dict[str, Any]:
        """Return a whole reply."""
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return self._document("chat.completion", choices=[choice], usage=usage_document(usage))

    def chunk(self, delta: dict[str, str], finish_reason: str | None = None) -> str:
        """Return an event of a stream: a piece of the reply, or its end."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return event_text(self._document("chat.completion.chunk", choices=[choice]))

    def usage_chunk(self, usage: Usage) -> str:
        """Return the event of a stream that says what the reply took."""
        document = usage_document(usage)
        return event_text(self._document("chat.completion.chunk", choices=[], usage=document))


def event_text(document: dict[str, Any]) -> str:
    """Return a server-sent event."""
    return f"data: {json.dumps(document, ensure_ascii=False)}\n\n"


def usage_document(usage: Usage) -> dict[str, Any]:
    """Return what a run has used."""
    prompt, completion = usage.prompt_tokens, usage.completion_tokens
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def error_document(problem: Problem) -> dict[str, Any]:
    """Return a refusal."""
    other = "server_error" if problem.status >= 500 else "invalid_request_error"
    kind = _KINDS.get(problem.status, other)
    message = f"{problem.message}; {problem.hint}" if problem.hint else problem.message
    return {"error": {"message": message, "type": kind, "param": None, "code": problem.code}}


def failure_of(run: Run) -> Problem:
    """Return why a run has no reply, with its code."""
    failure = run.failure
    code = str(run.status) if failure is None else failure.code
    message = f"run {run.run_id} ended as {run.status}"
    return Problem(500, code, message if failure is None else f"{message}: {failure.message}")
