"""Delivers what a provider says to the requests of a group, a line at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import httpx

from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.scheduler.store.economy.groups import Group
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.llm.client import Endpoint, ModelCallFailed, ModelRequest
from sleipnir.worker.llm.economy.batch_api import ResultLine
from sleipnir.worker.llm.limits.gate import BATCH_PRICE
from sleipnir.worker.llm.provider import gateway
from sleipnir.worker.llm.provider.failures import failure_of

logger = logging.getLogger("sleipnir.worker")

_STATUSES = range(100, 600)


class Deliveries:
    """Tells requests what came of them; whatever is told twice counts once."""

    def __init__(self, store: RunStore, endpoint_of: Callable[[str], Endpoint]) -> None:
        self._requests = store.requests
        self._endpoint_of = endpoint_of

    def deliver(
        self,
        group: Group,
        lines: Iterator[ResultLine],
        shares: Mapping[str, Sequence[str]],
    ) -> bool:
        """Deliver results; return False if the batch turns out to be another's.

        Args:
            shares: requests that get the reply to another one, by that.

        Raises:
            ModelCallFailed: they cannot be read to the end; to be repeated from the start.
        """
        unknown, is_ours = 0, not group.adopted
        for line in lines:
            outcome = self._deliver(group, line, shares.get(line.request_id, ()))
            if outcome == "unknown":
                unknown += 1
                if not is_ours and not self._requests.is_of(line.request_id, group.group_id):
                    return False
            is_ours = True
        if unknown:
            logger.info("batch %s: %d lines of no request", group.batch_id, unknown)
        return True

    def _deliver(self, group: Group, line: ResultLine, others: Sequence[str]) -> str:
        result, usage = self._result_of(group, line)
        outcome = self._requests.deliver(
            line.request_id, group.group_id, result, usage, failed="failed" in result
        )
        for other in others:
            shared = {**result, "usage": NO_USAGE.to_list(), "shared": True}
            self._requests.deliver(other, group.group_id, shared)
        return outcome

    def _result_of(self, group: Group, line: ResultLine) -> tuple[dict[str, Any], Usage | None]:
        """Return what a visit is told, and what that has used."""
        if line.expired:
            return {"expired": True}, None
        if line.completion is None:
            return {"failed": _told(_failure_of(line.failure or {}))}, None
        model = group.collection
        try:
            answer = gateway.answer_in_batch(
                line.completion, _unknown_request(model), self._endpoint_of(model), BATCH_PRICE
            )
        except Exception as error:
            return {"failed": _told(failure_of(error, 0.0, ()))}, None
        result = {
            "message": dict(answer.message),
            "finish": answer.finish,
            "usage": answer.usage.to_list(),
            "batch": group.batch_id,
        }
        if not group.is_chat:  # only the visit knows what was asked, which may tell how to read it
            result["raw"] = dict(line.completion)
        return result, answer.usage

    def tell_all(self, group_id: str, result: Mapping[str, Any]) -> None:
        """Tell all requests of a group the same that have not been told anything yet."""
        for _, ids in self._requests.ids_of(group_id):
            for request_id in ids:
                self._requests.deliver(request_id, group_id, dict(result))

    def take_out_unwanted(self, group_id: str) -> None:
        """Take those out of a group that was not sent which nobody waits for any more."""
        for _, ids in self._requests.ids_of(group_id, awaited=False):
            for request_id in ids:
                self._requests.deliver(request_id, group_id, {"expired": True})

    def make_live(self, group_id: str) -> None:
        """Have the calls of a group made live; what the provider still delivers only counts."""
        for _, ids in self._requests.ids_of(group_id, awaited=True):
            for request_id in ids:
                self._requests.give_up(request_id)


def _unknown_request(model: str) -> ModelRequest:
    return ModelRequest(model, [{"role": "user", "content": "-"}])


def _failure_of(line: Mapping[str, Any]) -> ModelCallFailed:
    status, body = line.get("status"), line.get("body")
    if isinstance(status, int) and status in _STATUSES:
        request = httpx.Request("POST", "http://provider/")
        response = httpx.Response(status, json=body, request=request)
        error = httpx.HTTPStatusError("", request=request, response=response)
        return failure_of(error, 0.0, ())
    error_told = body.get("error") if isinstance(body, dict) else None
    told = error_told.get("message") if isinstance(error_told, dict) else None
    return ModelCallFailed(f"the provider's batch: {told or error_told}"[:1000])


def _told(failure: ModelCallFailed) -> dict[str, Any]:
    return {"message": failure.message, "kind": failure.kind, "status": failure.status}
