"""Batches of the scripted model server: files, batches, faults, and a bill."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from itertools import count
from random import Random
from typing import Any, Literal

from sleipnir.records import dataclass

# What goes wrong with the next batch that is created.
# lost: it is created, but the answer is not given; missing: it is not found for some polls;
# refused: it fails as a whole; half_failed: every other line fails; expired: every other line
# expires; strange: lines out of order, twice, and of unknown requests; unavailable: 503, and none
# is created.
Fault = Literal["lost", "missing", "refused", "half_failed", "expired", "strange", "unavailable"]
_MISSING_POLLS = 2


@dataclass(slots=True)
class Batch:
    """A batch as the provider keeps it."""

    batch_id: str
    lines: list[dict[str, Any]]
    metadata: Mapping[str, str]
    fault: Fault | None
    created_at: int
    status: str = "validating"
    polls: int = 0
    completed: int = 0
    results: list[dict[str, Any]] = field(default_factory=list)
    errors: list[dict[str, Any]] = field(default_factory=list)


class BatchProvider:
    """Answers what is below /files and /batches; `answer` makes the completion of a request.

    Attributes:
        bill: how often each prompt was answered, as it would be charged.
        pending_polls: so many polls find a batch in progress.
        most_lines: more are refused as a whole; None: any number.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], tuple[int, dict[str, Any]]]) -> None:
        self._answer = answer
        self._numbers = count(1)
        self._lock = threading.RLock()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, Batch] = {}
        self.bill: Counter[str] = Counter()
        self.faults: deque[Fault] = deque()
        self.pending_polls = 0
        self.most_lines: int | None = None
        self.has_interface = True
        self.heeds_cancel = True
        self.cancelled: list[str] = []
        self.deleted: list[str] = []

    def upload(self, content: bytes) -> dict[str, Any]:
        """Keep a file."""
        with self._lock:
            file_id = f"file-{next(self._numbers)}"
            self.files[file_id] = content
            return {"id": file_id, "object": "file", "purpose": "batch"}

    def delete(self, file_id: str) -> dict[str, Any]:
        """Delete a file."""
        with self._lock:
            self.deleted.append(file_id)
            self.files.pop(file_id, None)
            return {"id": file_id, "deleted": True}

    def create(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any] | None]:
        """Create a batch; return status and answer, None if that is lost."""
        with self._lock:
            fault = self.faults.popleft() if self.faults else None
            if fault == "unavailable":
                return 503, {"error": {"message": "overloaded"}}
            lines = [json.loads(line) for line in self.files[body["input_file_id"]].splitlines()]
            batch_id = f"batch_{next(self._numbers)}"
            if self.most_lines is not None and len(lines) > self.most_lines:
                fault = "refused"
            batch = Batch(batch_id, lines, body.get("metadata") or {}, fault, _now_s())
            self.batches[batch_id] = batch
            return 200, None if fault == "lost" else self._shown(batch)

    def create_messages(self, body: Mapping[str, Any]) -> tuple[int, dict[str, Any] | None]:
        """Create a batch of Anthropic's protocol; as `create`."""
        with self._lock:
            fault = self.faults.popleft() if self.faults else None
            lines = [
                {"custom_id": each["custom_id"], "body": each["params"]}
                for each in body["requests"]
            ]
            batch_id = f"msgbatch_{next(self._numbers)}"
            batch = Batch(batch_id, lines, {}, fault, _now_s())
            self.batches[batch_id] = batch
            return 200, None if fault == "lost" else self.message_batch(batch_id)

    def message_batch(self, batch_id: str, base: str = "") -> dict[str, Any]:
        """Return a batch in the words of Anthropic's protocol."""
        batch = self.batches[batch_id]
        done = batch.status not in ("validating", "in_progress")
        failed = len(batch.errors)
        return {
            "id": batch_id,
            "type": "message_batch",
            "processing_status": "ended" if done else "in_progress",
            "created_at": datetime.fromtimestamp(batch.created_at, tz=UTC).isoformat(),
            "request_counts": {
                "processing": 0 if done else len(batch.lines),
                "succeeded": batch.completed,
                "errored": failed,
                "canceled": 0,
                "expired": 0,
            },
            "results_url": f"{base}/batches/{batch_id}/results" if done else None,
        }

    def message_results(self, batch_id: str) -> bytes:
        """Return the results of such a batch."""
        batch = self.batches[batch_id]
        texts = []
        for line in batch.results:
            body = (line["response"] or {}).get("body")
            result = (
                {"type": "succeeded", "message": _message(body)} if body else {"type": "expired"}
            )
            texts.append(json.dumps({"custom_id": line["custom_id"], "result": result}))
        for line in batch.errors:
            error = {"type": "error", "error": {"type": "api_error", "message": "a fault"}}
            result = (
                {"type": "errored", "error": error} if line["response"] else {"type": "expired"}
            )
            texts.append(json.dumps({"custom_id": line["custom_id"], "result": result}))
        return "\n".join(texts).encode()

    def list(self, after: str = "") -> dict[str, Any]:
        """Return a page of batches, two of them, the newest first."""
        with self._lock:
            newest = list(reversed(self.batches.values()))
            ids = [batch.batch_id for batch in newest]
            first = ids.index(after) + 1 if after else 0
            page = newest[first : first + 2]
            more = first + 2 < len(newest)
            return {"data": [self._shown(batch) for batch in page], "has_more": more}

    def poll(self, batch_id: str) -> tuple[int, dict[str, Any]]:
        """Return a batch, which gets on with every poll."""
        with self._lock:
            batch = self.batches[batch_id]
            batch.polls += 1
            if batch.fault == "missing" and batch.polls <= _MISSING_POLLS:
                return 404, {"error": {"message": f"no batch {batch_id}"}}
            if batch.status in ("validating", "in_progress"):
                self._get_on(batch)
            return 200, self._shown(batch)

    def cancel(self, batch_id: str) -> dict[str, Any]:
        """Cancel a batch: what was not answered is not."""
        with self._lock:
            batch = self.batches[batch_id]
            self.cancelled.append(batch_id)
            if batch.status in ("validating", "in_progress") and self.heeds_cancel:
                self._end(batch, "cancelled", done=False)
            return self._shown(batch)

    def content(self, file_id: str) -> bytes:
        """Return a file."""
        with self._lock:
            return self.files[file_id]

    def _get_on(self, batch: Batch) -> None:
        if batch.fault == "refused":
            batch.status = "failed"
        elif batch.polls <= self.pending_polls:
            batch.status = "in_progress"
        else:
            self._end(batch, "expired" if batch.fault == "expired" else "completed", done=True)

    def _end(self, batch: Batch, status: str, *, done: bool) -> None:
        batch.status = status
        for number, line in enumerate(batch.lines):
            odd = number % 2 == 1
            if not done or (batch.fault == "expired" and odd):
                code = "batch_expired" if done else "batch_cancelled"
                batch.errors.append(_line(line, None, {"code": code, "message": "not done"}))
            elif batch.fault == "half_failed" and odd:
                failed = {"status_code": 500, "body": {"error": {"message": "a fault"}}}
                batch.errors.append(_line(line, failed, None))
            else:
                self._complete(batch, line)
        if batch.fault == "strange":
            batch.results += [*batch.results, _line({"custom_id": "f" * 32}, None, None)]
            Random(1).shuffle(batch.results)
        for name, lines in (("output", batch.results), ("error", batch.errors)):
            text = "".join(json.dumps(line) + "\n" for line in lines)
            if lines:
                self.files[f"{name}-{batch.batch_id}"] = text.encode()

    def _complete(self, batch: Batch, line: dict[str, Any]) -> None:
        status, body = self._answer(line["body"])
        if status == 200:
            self.bill[prompt_of(line["body"])] += 1
            batch.completed += 1
        result = _line(line, {"status_code": status, "body": body}, None)
        (batch.results if status == 200 else batch.errors).append(result)

    def _shown(self, batch: Batch) -> dict[str, Any]:
        def file_of(name: str, lines: list[dict[str, Any]]) -> str | None:
            return f"{name}-{batch.batch_id}" if lines else None

        data = [{"code": "invalid_request", "message": "too many lines", "line": None}]
        return {
            "id": batch.batch_id,
            "object": "batch",
            "status": batch.status,
            "created_at": batch.created_at,
            "metadata": dict(batch.metadata),
            "errors": {"data": data} if batch.status == "failed" else None,
            "request_counts": {
                "total": len(batch.lines),
                "completed": batch.completed,
                "failed": len(batch.errors),
            },
            "output_file_id": file_of("output", batch.results),
            "error_file_id": file_of("error", batch.errors),
        }


def _message(completion: Mapping[str, Any]) -> dict[str, Any]:
    usage = completion["usage"]
    text = completion["choices"][0]["message"]["content"]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": completion["model"],
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {
            "input_tokens": usage["prompt_tokens"],
            "output_tokens": usage["completion_tokens"],
        },
    }


def prompt_of(body: Mapping[str, Any]) -> str:
    """Return the text of the last message of a request."""
    content = body["messages"][-1]["content"]
    return str(content if isinstance(content, str) else content[-1]["text"])


def _now_s() -> int:
    return int(datetime.now(UTC).timestamp())


def _line(line: Mapping[str, Any], response: Any, error: Any) -> dict[str, Any]:
    return {"id": "r", "custom_id": line["custom_id"], "response": response, "error": error}
