"""How a model call joins a batch of its provider, and how its reply is taken."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sleipnir.graphs.files import MIB
from sleipnir.records import dataclass
from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.limits.records import Used
from sleipnir.scheduler.store.economy.requests import NewRequest
from sleipnir.scheduler.store.economy.waiting import CALL
from sleipnir.worker.llm.caller import Caller
from sleipnir.worker.llm.client import Endpoint, ModelRequest, Reply
from sleipnir.worker.llm.economy.providers import takes_batches
from sleipnir.worker.llm.economy.waiting import Came, CannotWait, what_came
from sleipnir.worker.llm.limits.estimate import prompt_tokens
from sleipnir.worker.llm.limits.gate import Gate, hold_text
from sleipnir.worker.llm.prompt_caching import told_to_cache
from sleipnir.worker.llm.provider import gateway
from sleipnir.worker.llm.recording.cache import ReplyCache
from sleipnir.worker.llm.recording.recorder import Recorder

# A larger request is made live.
LARGEST_REQUEST_BYTES = 4 * MIB
# Longer than any provider takes for a batch: what a request holds of budgets is released before.
_HELD_S = 27 * 3600.0


@dataclass(frozen=True, slots=True)
class WaitingPlace:
    """Where a request waits, and for how long."""

    request_id: str
    deadline_s: float | None  # after that the call is made live; None: never
    since_ms: int | None = None  # since when the visit waits for a reply; None: it begins to

    @property
    def call(self) -> str:
        """The id of the visit's wait."""
        return CALL + self.request_id


@dataclass(frozen=True, slots=True)
class BatchedCalls:
    """Model calls that wait for batches.

    Args:
        for_model: returns a request in the form that a model takes.
    """

    settings: ModelSettings
    endpoint_of: Callable[[str], Endpoint]
    gate: Gate
    cache: ReplyCache
    recorder: Recorder
    for_model: Callable[[ModelRequest, str], ModelRequest]
    resolved: Callable[[ModelRequest], ModelRequest]

    def chain(self, request: ModelRequest) -> Sequence[str]:
        """Return the models of a request, in the order in which they are asked."""
        return self.settings.chain(request.model)

    def request_of(
        self, request: ModelRequest, model: str, caller: Caller, place: WaitingPlace
    ) -> NewRequest:
        """Return the request of a call to a model, with what it holds of budgets.

        Raises:
            CannotWait: it has to be made live.
            MustWait: running calls have reserved what it would need of a budget.
            NotCalled: a budget does not allow it, or the key is missing.
        """
        if not takes_batches(model, self.settings):
            raise CannotWait(f"{model} has no batches here")
        request = self.for_model(request, model)
        grant = self.gate.reserve_batched(request, caller, _HELD_S)
        hold = hold_text(grant)
        if grant.reply_tokens is not None:
            request = replace(request, max_tokens=grant.reply_tokens)
            caller.on_limited(grant.reply_tokens, grant.limited_by)
        sent = gateway.body_in_batch(told_to_cache(request), self.endpoint_of(model))
        body = "" if sent is None else json.dumps(sent)
        if sent is None or len(body) > LARGEST_REQUEST_BYTES:
            if hold:
                self.gate.settle(hold, Used(), place.request_id)
            raise CannotWait(
                f"this request to {model} has no form for batches"
                if sent is None
                else f"a request of {len(body):,} bytes is too large for a batch"
            )
        return NewRequest(
            request_id=place.request_id,
            call=place.call,
            collection=model,
            body=body,
            digest=hashlib.sha256(body.encode()).hexdigest(),
            tokens=prompt_tokens(request),
            deadline_s=place.deadline_s,
            since_ms=place.since_ms,
            shares=caller.cache_s is not None and caller.attempt == 1,
            named=f"{caller.node} {model}",
            hold=hold,
        )

    def abandon(self, request: NewRequest) -> None:
        """Release what a request holds that did not join."""
        if request.hold:
            self.gate.settle(request.hold, Used(), request.request_id)

    def came(self, result: Mapping[str, Any], request: ModelRequest, model: str, node: str) -> Came:
        """Return what came of a request to a model; raises as `what_came`."""
        return what_came(result, self.for_model(request, model), self.endpoint_of, node)

    def keep(self, request: ModelRequest, caller: Caller, reply: Reply) -> None:
        """Record and keep a reply as if it had come live."""
        with self.cache.asking(self.resolved(request), caller) as keep:
            keep(reply)
        self.recorder.replied(request, caller, reply)
