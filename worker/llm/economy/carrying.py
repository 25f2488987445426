"""One provider's groups of requests, from their collection to the delivery of the replies.

Whoever holds the provider's lease does all this. What a group has come to is written before the
next step, so that another worker goes on where this one died; the only thing that it cannot know
is whether a batch was created whose id was not written: see `sending.Sender.find_again`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from sleipnir.scheduler.config.models import ModelSettings
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.economy.groups import Group, Groups, new_group_id
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.llm.client import Endpoint, ModelCallFailed
from sleipnir.worker.llm.economy.batch_api import BatchApi
from sleipnir.worker.llm.economy.delivering import Deliveries
from sleipnir.worker.llm.economy.held_groups import HeldGroups, jittered_ms
from sleipnir.worker.llm.economy.providers import GroupLimits, limits_of
from sleipnir.worker.llm.economy.sending import FIRST_POLL_S, Sender

logger = logging.getLogger("sleipnir.worker")

_LONGEST_POLL_S, _POLL_GROWTH = 300.0, 1.5
_BUSY_S = 300.0  # until a group is sent again that found too much enqueued
_NOT_FOUND_MS = 10 * 60_000  # a new batch may not be found for so long
_EMPTY_MS = 3_600_000
_ALL_BUSY = "token_limit_exceeded"
_STEPS = 8  # of one group in a row
_NOT_FOUND = 404


class Carrier:
    """Carries one provider's requests, while its lease is held; raises TransitionRefused if not.

    Args:
        pause_of: returns why nothing may be sent to a model, None if it may.
    """

    def __init__(
        self,
        store: RunStore,
        groups: Groups,
        provider: str,
        api: BatchApi,
        settings: ModelSettings,
        endpoint_of: Callable[[str], Endpoint],
        token: str,
        pause_of: Callable[[str], str | None],
    ) -> None:
        self._store = store
        self._requests = store.requests
        self._groups = groups
        self._api = api
        self._limits: GroupLimits = limits_of(provider, settings)
        self._deliveries = Deliveries(store, endpoint_of)
        self._held = HeldGroups(store, groups, provider, token)
        self._pause_of = pause_of
        self._sender = Sender(
            self._held, store.requests, self._deliveries, api, self._limits, pause_of
        )

    def carry(self, collections: Sequence[str]) -> None:
        """Do everything that is due now."""
        wishes = self._groups.wishes()
        for name in collections:
            self._collect(name, is_wished=f"send {self._held.provider}" in wishes)
        if f"send {self._held.provider}" in wishes:
            self._groups.grant(f"send {self._held.provider}")
        for group in list(self._held.all.values()):
            if group.provider == self._held.provider:
                if f"live {group.group_id}" in wishes:
                    self._deliveries.make_live(group.group_id)
                    self._groups.grant(f"live {group.group_id}")
                self._go_on(group)

    def _go_on(self, group: Group) -> None:
        for _ in range(_STEPS):
            if group.due_ms > self._held.now_ms():
                return
            before = group
            try:
                self._step(group)
            except ModelCallFailed as failure:
                self._held.troubled(self._held.all[group.group_id], failure)
            after = self._held.all.get(group.group_id)
            if after is None or after == before:
                return
            group = after

    def _step(self, group: Group) -> None:
        match group.state:
            case "filling":
                self._fill(group)
            case "ready":
                self._sender.send(group)
            case "sending":
                self._sender.find_again(group)
            case "sent":
                self._poll(group)
            case "ended":
                self._deliver(group)
            case "halving":
                self._halve(group)
            case "told":
                self._clean_up(group)

    # ---- collections

    def _collect(self, name: str, *, is_wished: bool) -> None:
        """Close a collection into a group if it is time."""
        found, now_ms = self._requests.collected(name), self._held.now_ms()
        if found.oldest_ms is None:
            self._groups.forget_collection(name, now_ms - _EMPTY_MS)
            return
        # While it is paused, a batch gets larger instead of many small ones queueing up.
        is_paused = self._pause_of(name) is not None
        is_due = is_wished or now_ms - found.oldest_ms >= self._limits.send_after_s * 1000
        is_full = found.count >= self._limits.requests or found.stored >= self._limits.stored
        if is_full or (is_due and not is_paused):
            group = Group(new_group_id(), self._held.provider, name, "filling", now_ms)
            self._held.write(group)

    def _fill(self, group: Group) -> None:
        limits = self._limits
        count = bytes_ = tokens = stored = 0
        full = False
        for partition in ALL_PARTITIONS:
            while not full and count < limits.requests:
                room = (limits.bytes - bytes_, limits.stored - stored, limits.tokens - tokens)
                most = limits.requests - count
                got = self._requests.claim(
                    partition, group.collection, group.group_id, most, room, alone=count == 0
                )
                count, bytes_ = count + got.count, bytes_ + got.bytes
                tokens, stored = tokens + got.tokens, stored + got.stored
                full = got.full
                if got.count == 0:
                    break
        count = sum(len(ids) for _, ids in self._requests.ids_of(group.group_id))
        if count == 0:
            self._held.forget(group)
            return
        self._held.write(group, state="ready", count=count, bytes=bytes_, tokens=tokens)

    # ---- waiting for the provider

    def _poll(self, group: Group) -> None:
        if not group.cancelled and self._requests.awaited(group.group_id) == 0:
            # If that fails, what the provider delivers counts all the same.
            with suppress(ModelCallFailed):
                self._api.cancel(group.batch_id)
            group = self._held.write(group, cancelled=True)
        try:
            polled = self._api.poll(group.batch_id)
        except ModelCallFailed as failure:
            is_new = self._held.now_ms() - group.since_ms < _NOT_FOUND_MS
            if failure.status != _NOT_FOUND or is_new:
                raise
            # The provider has lost it: its requests join the next collection.
            self._held.write(group, state="ended", results=(), trouble=failure.message)
            return
        if polled.begun and not group.bodies_gone:
            self._requests.forget_bodies(group.group_id)
            group = self._held.write(group, bodies_gone=True)
        group = replace(group, status=polled.status, counts=polled.counts, trouble="", failures=0)
        if polled.refused:
            self._refused(group, polled.refused)
        elif polled.ended:
            self._held.write(group, state="ended", results=polled.results)
        else:
            pause_s = min(_LONGEST_POLL_S, max(FIRST_POLL_S, group.pause_s * _POLL_GROWTH))
            self._held.write(
                group, pause_s=pause_s, due_ms=self._held.now_ms() + jittered_ms(pause_s)
            )

    def _refused(self, group: Group, why: str) -> None:
        others = any(
            each.state == "sent" and each.group_id != group.group_id
            for each in self._held.all.values()
        )
        if _ALL_BUSY in why and others:
            due_ms = self._held.now_ms() + int(_BUSY_S * 1000)
            self._held.write(group, state="ready", batch_id="", trouble=why, due_ms=due_ms)
        else:
            self._held.write(group, state="halving", trouble=why)

    def _halve(self, group: Group) -> None:
        """Send the halves of a refused group, one after the other; of a single request, tell it."""
        ids = sorted(each for _, some in self._requests.ids_of(group.group_id) for each in some)
        if not group.halves and len(ids) <= 1:
            failed = {"message": group.trouble, "kind": "other", "status": None}
            self._deliveries.tell_all(group.group_id, {"failed": failed})
            self._held.write(group, state="told")
            return
        if not group.halves:
            group = self._held.write(group, halves=(new_group_id(), new_group_id()))
        first, second = group.halves
        middle = len(ids) // 2
        self._requests.move(group.group_id, first, ids[:middle])
        self._requests.move(group.group_id, second, ids[middle:])
        for half, after in ((first, ""), (second, first)):
            count = sum(len(some) for _, some in self._requests.ids_of(half))
            if count and half not in self._held.all:
                new = Group(half, group.provider, group.collection, "ready", self._held.now_ms())
                self._held.write(
                    new,
                    count=count,
                    bytes=group.bytes // 2,
                    tokens=group.tokens // 2,
                    after=after,
                    trouble=group.trouble,
                )
        self._held.write(group, state="told")

    # ---- results

    def _deliver(self, group: Group) -> None:
        """Deliver all results; what has none by then is to join the next collection."""
        shares = self._held.shares(group)
        for place in group.results:
            if not self._deliveries.deliver(group, self._api.results(place), shares):
                disowned = (*group.disowned, group.batch_id)
                self._held.write(
                    group, state="sending", batch_id="", adopted=False, disowned=disowned
                )
                return
        self._deliveries.tell_all(group.group_id, {"expired": True})
        self._held.write(group, state="told")

    def _clean_up(self, group: Group) -> None:
        """Delete the provider's files, as far as it lets us, and forget the group."""
        files = tuple(filter(None, (group.file_id, *group.results)))
        try:
            self._api.delete(group.batch_id, files)
        except ModelCallFailed as failure:
            logger.info("files of batch %s are not deleted: %s", group.batch_id, failure)
        self._held.forget(group)
