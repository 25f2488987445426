"""Sends a group of requests to a provider as one batch, once."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sleipnir.scheduler.store.economy.groups import Group
from sleipnir.scheduler.store.economy.requests import Requests
from sleipnir.worker.llm.client import ModelCallFailed
from sleipnir.worker.llm.economy.batch_api import BatchApi
from sleipnir.worker.llm.economy.delivering import Deliveries
from sleipnir.worker.llm.economy.held_groups import FIRST_PAUSE_S, HeldGroups, jittered_ms
from sleipnir.worker.llm.economy.providers import GroupLimits

logger = logging.getLogger("sleipnir.worker")

FIRST_POLL_S = 30.0
# The provider's list may not have a batch at once whose answer was lost.
_LOOK_AFTER_S = 10.0
_EARLIER_MS = 10 * 60_000  # clocks of providers differ
_NO_INTERFACE = frozenset({404, 405, 501})
# Statuses by which a provider says what another try may change.
_NOT_FINAL = frozenset({401, 402, 403, 404, 408, 409, 425, 429})
_CLIENT_ERRORS = range(400, 500)
_TOO_MANY = 429


class Sender:
    """Sends groups of one provider, whose lease is held.

    Args:
        pause_of: returns why nothing may be sent to a model, None if it may.
    """

    def __init__(
        self,
        held: HeldGroups,
        requests: Requests,
        deliveries: Deliveries,
        api: BatchApi,
        limits: GroupLimits,
        pause_of: Callable[[str], str | None],
    ) -> None:
        self._held = held
        self._requests = requests
        self._deliveries = deliveries
        self._api = api
        self._limits = limits
        self._pause_of = pause_of

    def send(self, group: Group) -> None:
        if self._is_paused(group) or not self._may_send(group):
            self._look_later(group)
            return
        self._deliveries.take_out_unwanted(group.group_id)
        group = self._held.write(group, state="sending", since_ms=self._held.now_ms(), trouble="")
        self._upload_and_create(group)

    def _is_paused(self, group: Group) -> bool:
        return self._pause_of(group.collection) is not None

    def _look_later(self, group: Group) -> None:
        self._held.write(group, due_ms=self._held.now_ms() + int(FIRST_PAUSE_S * 1000))

    def _may_send(self, group: Group) -> bool:
        """Return whether the provider has room for another group."""
        if group.after in self._held.all:
            return False
        there = [
            other
            for other in self._held.all.values()
            if other.provider == self._held.provider and other.state in ("sending", "sent")
        ]
        tokens = sum(other.tokens for other in there if other.collection == group.collection)
        has_room = not there or tokens + group.tokens <= self._limits.tokens
        return len(there) < self._limits.open and has_room

    def _upload_and_create(self, group: Group) -> None:
        with tempfile.TemporaryDirectory(prefix="batch-") as directory:
            file = Path(directory, "requests.jsonl")
            count = self._written(group, file)
            if count == 0:
                self._held.write(group, state="ended", results=())
                return
            if not group.file_id:
                file_id = self._uploaded(group, file)
                if file_id is None:
                    return
                group = self._held.write(group, file_id=file_id, count=count)
            self._create(group, file)

    def _written(self, group: Group, file: Path) -> int:
        """Write a line for each request, one for equal ones; return how many there are."""
        leaders: dict[str, str] = {}
        shares: dict[str, list[str]] = {}
        count = 0
        with file.open("w", encoding="utf-8") as lines:
            for request_id, body, digest in self._requests.bodies(group.group_id):
                leader = leaders.setdefault(digest, request_id) if digest else request_id
                if leader != request_id:
                    shares.setdefault(leader, []).append(request_id)
                    continue
                lines.write(self._api.line_of(request_id, body) + "\n")
                count += 1
        if not group.file_id:
            self._held.share(group, shares)
        return count

    def _uploaded(self, group: Group, file: Path) -> str | None:
        """Return the id of the uploaded file; None if the group takes another way."""
        try:
            return self._api.upload(f"sleipnir-{group.group_id}", file)
        except ModelCallFailed as failure:
            if failure.status in _NO_INTERFACE:
                self._deliveries.tell_all(group.group_id, {"live": failure.message})
                self._held.write(group, state="told", trouble=failure.message)
            elif _is_refusal(failure):
                self._held.write(group, state="halving", trouble=failure.message)
            else:
                # Nothing was created: no batch has to be looked for.
                self._held.troubled(replace(group, state="ready"), failure)
            return None

    def _create(self, group: Group, file: Path) -> None:
        # A lease that was lost meanwhile: another worker may have created it.
        group = self._held.write(group)
        try:
            batch_id = self._api.create(group.group_id, group.file_id, file)
        except ModelCallFailed as failure:
            if _is_refusal(failure):
                self._held.write(group, state="halving", trouble=failure.message)
            elif failure.status == _TOO_MANY:
                self._held.troubled(replace(group, state="ready"), failure)
            else:  # it may have been created all the same
                due_ms = self._held.now_ms() + int(_LOOK_AFTER_S * 1000)
                self._held.write(group, trouble=failure.message, due_ms=due_ms)
            return
        self._sent(group, batch_id)

    def _sent(self, group: Group, batch_id: str, *, first_s: float = FIRST_POLL_S) -> None:
        logger.info("group %s is provider batch %s", group.group_id, batch_id)
        due_ms = self._held.now_ms() + jittered_ms(first_s)
        self._held.write(
            group, state="sent", batch_id=batch_id, trouble="", failures=0, due_ms=due_ms, pause_s=0
        )

    def find_again(self, group: Group) -> None:
        """Go on with a group that may have been sent: look for its batch before sending it again.

        A list that cannot be read is read again later; nothing is sent blindly.
        """
        owned = {other.batch_id for other in self._held.all.values()}
        for listed in self._api.listed(group.since_ms - _EARLIER_MS):
            if self._api.keeps_group:
                is_ours = listed.group_id == group.group_id
            else:
                is_free = listed.batch_id not in owned and listed.batch_id not in group.disowned
                is_ours = is_free and listed.requests == group.count
            if is_ours:
                logger.info("group %s was sent: batch %s", group.group_id, listed.batch_id)
                group = self._held.write(group, adopted=not self._api.keeps_group)
                self._sent(group, listed.batch_id, first_s=0.0)
                return
        if self._is_paused(group):
            self._look_later(group)
            return
        group = self._held.write(group, since_ms=self._held.now_ms(), trouble="")
        self._upload_and_create(group)


def _is_refusal(failure: ModelCallFailed) -> bool:
    return failure.status in _CLIENT_ERRORS and failure.status not in _NOT_FINAL
