"""A model call that waits for a batch of its provider: its request, and what came of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import ModelCall, Usage
from sleipnir.worker.llm.client import Endpoint, ModelCallFailed, ModelRequest, Reply
from sleipnir.worker.llm.provider import gateway
from sleipnir.worker.llm.provider.history import marked, provider_of
from sleipnir.worker.visit.context import Visit


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
    """What came of a request in a batch; neither: it is to be made live."""

    reply: Reply | None = None
    joins: bool = False  # it is to join the next batch, as it was in none, or expired there


NOTHING = Came(joins=True)


def what_came(
    result: Mapping[str, Any],
    request: ModelRequest,
    endpoint_of: Callable[[str], Endpoint],
    node: str,
) -> Came:
    """Return what came of a request, from the result of its wait; empty: nothing in time.

    Raises:
        CannotWait: the provider has no batches.
        ModelCallFailed: its line failed.
    """
    if not result:
        return Came()
    if "failed" in result:
        failed = result["failed"]
        raise ModelCallFailed(failed["message"], failed["kind"], status=failed["status"])
    if "expired" in result:
        return NOTHING
    if "live" in result:
        raise CannotWait(result["live"])
    if "raw" in result:
        endpoint = endpoint_of(request.model)
        answer = gateway.answer_in_batch(result["raw"], request, endpoint, 1.0)
        result = {**result, "message": dict(answer.message), "finish": answer.finish}
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
