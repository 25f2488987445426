"""A question of a visit, put to a model and then to its fallbacks in batches of their providers."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sleipnir.records import dataclass
from sleipnir.worker.llm.caller import Caller, InBatch
from sleipnir.worker.llm.chain import Failures, together
from sleipnir.worker.llm.client import ModelCallFailed, ModelRequest, NotCalled, Reply
from sleipnir.worker.llm.economy.joining import BatchedCalls, WaitingPlace
from sleipnir.worker.llm.economy.waiting import NOTHING, Came, CannotWait, request_id_of
from sleipnir.worker.visit.context import Visit

logger = logging.getLogger("sleipnir.worker")


@dataclass(frozen=True, slots=True)
class BatchedQuestion:
    """The n-th question of a visit's attempt."""

    visit: Visit[Any]
    number: int
    request: ModelRequest
    caller: Caller
    calls: BatchedCalls

    def reply(self) -> tuple[Reply | None, Failures]:
        """Return the reply of the first model that has given one in its batch.

        None: the models are to be asked live, without those that have failed. The time until then
        counts from when the first one was asked.

        Raises:
            InBatch: there is none yet.
            ModelCallFailed: all models have failed, or a budget does not allow the call.
            MustWait: running calls have reserved what it would need of a budget.
        """
        failures: dict[str, ModelCallFailed] = {}
        since_ms: int | None = None
        for model, place in self._places():
            result = self._result(place)
            since_ms = since_ms or (result or {}).get("since")
            try:
                came = NOTHING if result is None else self._came(result, model)
                if came.reply is not None:
                    self.calls.keep(self.request, self.caller, came.reply)
                    return came.reply, failures
                if not came.joins:
                    return None, failures
                place = replace(place, since_ms=since_ms)
                raise InBatch(self.calls.request_of(self.request, model, self.caller, place))
            except CannotWait as reason:
                if not self.visit.context.economy_only:
                    return None, failures
                failures[model] = NotCalled(f"--economy-only: {reason}")
            except ModelCallFailed as failure:
                logger.warning("model %s failed: %s", model, failure)
                failures[model] = failure
        raise self._failed(failures)

    def _result(self, place: WaitingPlace) -> dict[str, Any] | None:
        """Return the result of a wait, empty if the time ran out; None if there was no wait."""
        text = self.visit.arrived.get(place.call)
        return None if text is None else json.loads(text or "{}")

    def _came(self, result: Mapping[str, Any], model: str) -> Came:
        return self.calls.came(result, self.request, model, self.caller.node)

    def _places(self) -> Iterator[tuple[str, WaitingPlace]]:
        """Yield models in the order they are asked, each with where its request waits."""
        context = self.visit.context
        deadline_s = None if context.economy_only else context.economy_s
        places = [
            (model, WaitingPlace(request_id_of(self.visit, self.number, position), deadline_s))
            for position, model in enumerate(self.calls.chain(self.request))
        ]
        asked = [place.call in self.visit.arrived for _, place in places]
        for position, each in enumerate(places):
            # One whose key was missing on another worker is not gone back to: it would be paid too.
            if asked[position] or not any(asked[position:]):
                yield each

    def _failed(self, failures: Failures) -> ModelCallFailed:
        """Return the failures as one, which is recorded."""
        (only, *others) = failures.values()
        failure = together(failures) if others else only
        if not isinstance(failure, NotCalled):  # else no model was asked
            self.calls.recorder.failed(self.request, self.caller, failure)
        return failure
