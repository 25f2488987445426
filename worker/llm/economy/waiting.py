"""A model call that waits for a batch of its provider: its request, and what came of it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import ModelCall, Usage
from sleipnir.worker.llm.client import Endpoint, ModelCallFailed, ModelRequest, Reply
from sleipnir.worker.llm.provider import gateway
from sleipnir.worker.llm.provider.history import marked, provider_of
from sleipnir.worker.visit.context import Visit

# Ids of the waits for replies.
CALL = "batch-"


def request_id_of(visit: Visit[Any], asked: int) -> str:
    """Return the id of the n-th request of this attempt, the same for every delivery."""
    name = f"{visit.idempotency_key}:{visit.attempt}:{asked}"
    return visit.run_id[:2] + hashlib.sha256(name.encode()).hexdigest()[:30]


@dataclass(frozen=True, slots=True)
class Came:
    """What came of a request in a batch; neither: it is to be made live."""

    reply: Reply | None = None
    joined_ms: int | None = None  # it expired there, and joins the next batch


LIVE = Came()


def what_came(text: str, request: ModelRequest, endpoint: Endpoint, node: str) -> Came:
    """Return what came of a request, from the result of its wait; "": nothing in time.

    Raises:
        ModelCallFailed: its line failed.
    """
    if not text:
        return LIVE
    result = json.loads(text)
    if "failed" in result:
        failed = result["failed"]
        raise ModelCallFailed(failed["message"], failed["kind"], status=failed["status"])
    if "expired" in result:
        return Came(joined_ms=result["since"])
    if "message" not in result:
        return LIVE
    if "raw" in result:
        answer = gateway.answer_in_batch(result["raw"], request, endpoint, 1.0)
        result |= {"message": dict(answer.message), "finish": answer.finish}
    call = None if "shared" in result else ModelCall(node, request.model, 0)
    prompt, completion, cost, cached, written, *economy = result["usage"]
    usage = Usage(prompt, completion, cost, cached, written, sum(economy), call)
    reply = Reply(
        marked(result["message"], provider_of(request)),
        usage,
        "shared" if result.get("shared") else "model",
        finish=result.get("finish"),
        native=request.schema is not None,
        batch=result["batch"],
    )
    return Came(reply)
