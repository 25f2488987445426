"""A model call that waits for a batch of its provider: its request, and what came of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import ModelCall, Usage
from sleipnir.worker.llm.client import Endpoint, ModelCallFailed, ModelRequest, Reply
from sleipnir.worker.llm.provider import gateway
from sleipnir.worker.llm.provider.history import marked, provider_of
from sleipnir.worker.visit.context import Visit

# Ids of the waits for replies.
CALL = "batch-"


class CannotWait(Exception):
    """A call cannot be part of a batch; the text says why."""


def request_id_of(visit: Visit[Any], asked: int, position: int) -> str:
    """Return the id of the n-th request of this attempt, the same for every delivery.

    Args:
        position: of the model in its chain.
    """
    question = f"{asked}:{position}" if position else asked
    name = f"{visit.idempotency_key}:{visit.attempt}:{question}"
    return visit.run_id[:2] + hashlib.sha256(name.encode()).hexdigest()[:30]


@dataclass(frozen=True, slots=True)
class Came:
    """What came of a request in a batch; if nothing else did, it is to be made live."""

    reply: Reply | None = None
    failure: ModelCallFailed | None = None  # its line failed
    joins: bool = False  # it is to join the next batch, as it was in none, or expired there
    since_ms: int | None = None  # when the visit began to wait for it


NOTHING = Came(joins=True)


def what_came(
    text: str, request: ModelRequest, endpoint_of: Callable[[str], Endpoint], node: str
) -> Came:
    """Return what came of a request, from the result of its wait; "": nothing in time.

    Raises:
        CannotWait: the provider has no batches.
    """
    if not text:
        return Came()
    result = json.loads(text)
    since_ms = result["since"]
    if "failed" in result:
        told = result["failed"]
        failure = ModelCallFailed(told["message"], told["kind"], status=told["status"])
        return Came(failure=failure, since_ms=since_ms)
    if "expired" in result:
        return Came(joins=True, since_ms=since_ms)
    if "live" in result:
        raise CannotWait(result["live"])
    if "raw" in result:
        endpoint = endpoint_of(request.model)
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
    return Came(reply, since_ms=since_ms)
