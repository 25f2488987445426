"""Sends events to hooks, on threads of a scheduler that its sweeps never wait for.

The sweep offers what is due; a delivery is taken for longer than a request may last, so that
another scheduler sends it again if this one dies. What cannot be sent now is due again when its
hook has room.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import uniform
from time import monotonic
from typing import Final
from urllib.parse import urlsplit

from sleipnir.records import dataclass
from sleipnir.scheduler.config.secret_files.hook_key import HookKey
from sleipnir.scheduler.errors import DefinitionChanged, SettingInvalid
from sleipnir.scheduler.hooks.notifier import Notifier
from sleipnir.scheduler.hooks.sending import HookReply, post
from sleipnir.scheduler.runs.hooks.attempts import PATIENCE_S, pause_s
from sleipnir.scheduler.runs.hooks.model import Hook, good_secrets
from sleipnir.scheduler.runs.hooks.signing import signature
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.hooks.deliveries import DeliveryPlace
from sleipnir.scheduler.store.hooks.records import Attempt, HookEvent
from sleipnir.scheduler.store.run_store import RunStore

logger = logging.getLogger("sleipnir.scheduler")

THREADS: Final = 8
MOST_OF_HOST: Final = 2  # requests at a time
LEAST_APART_S: Final = 0.2  # requests to one hook: 5 a second
# Of one hook, on the threads or about to be.
_AT_HAND: Final = 10
# Longer than a request, and the search for its address, may take.
_LEASE_S: Final = 60.0
_LONGEST_POSTPONED_S: Final = 300.0
_ANOTHER_CHANGE: Final = 20
_GONE: Final = 410


@dataclass(slots=True)
class _Pace:
    """When requests to a hook may begin."""

    at_hand: int = 0
    under_way: int = 0
    next_s: float = 0.0  # of the next request
    booked_s: float = 0.0  # until when there is no room for what was postponed


class Deliverer:
    """Delivers what it is offered.

    Args:
        body_of: makes the body of an event for a hook, given by name.
    """

    def __init__(
        self, store: RunStore, body_of: Callable[[HookEvent, str], bytes], threads: int = THREADS
    ) -> None:
        self._store = store
        self._body_of = body_of
        self._key = HookKey(store.settings.hook_key_file)
        self._notifier = Notifier(store.settings)
        self._changed = threading.Condition()
        self._waiting: list[DeliveryPlace] = []
        self._at_hand: set[DeliveryPlace] = set()
        self._paces: dict[str, _Pace] = {}
        self._hosts: Counter[str] = Counter()
        self._held: dict[DeliveryPlace, str] = {}  # those whose host had no room
        self._is_stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"hooks-{number}", daemon=True)
            for number in range(threads)
        ]

    def start(self) -> None:
        """Begin to deliver."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin no more requests; what is left is due again once its time is over."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()

    def offer(self, digits: str, hook: str, event_id: str) -> None:
        """Take a delivery that is due, or postpone it until its hook has room."""
        place = DeliveryPlace(digits, hook, event_id)
        with self._changed:
            if self._is_stopping or place in self._at_hand:
                return
            pace = self._paces.setdefault(hook, _Pace())
            if pace.at_hand < _AT_HAND:
                pace.at_hand += 1
                self._at_hand.add(place)
                self._waiting.append(place)
                self._changed.notify()
                return
            pace.booked_s = max(pace.booked_s, monotonic()) + LEAST_APART_S
            by_s = pace.booked_s - monotonic()
        if by_s > _LONGEST_POSTPONED_S:
            by_s = uniform(0.5, 1.0) * _LONGEST_POSTPONED_S
        self._store.deliveries.postpone(place, by_s)

    def _run(self) -> None:
        while (place := self._next()) is not None:
            try:
                self._deliver(place)
            except RedisError as error:
                logger.warning("cannot deliver to hook '%s': %s", place.hook, error)
            except Exception:
                logger.exception("cannot deliver to hook '%s'", place.hook)
            finally:
                self._release(place)

    def _next(self) -> DeliveryPlace | None:
        """Wait for a delivery whose hook may be told now; None: this is to stop."""
        with self._changed:
            while not self._is_stopping:
                now_s, soonest_s = monotonic(), None
                for index, place in enumerate(self._waiting):
                    pace = self._paces[place.hook]
                    host = self._held.get(place)
                    if pace.under_way >= MOST_OF_HOST or (host and not self._has_room(host)):
                        continue
                    if pace.next_s <= now_s:
                        pace.under_way += 1
                        pace.next_s = now_s + LEAST_APART_S
                        self._held.pop(place, None)
                        return self._waiting.pop(index)
                    soonest_s = min(pace.next_s, soonest_s or pace.next_s)
                self._changed.wait(None if soonest_s is None else soonest_s - now_s)
        return None

    def _release(self, place: DeliveryPlace) -> None:
        with self._changed:
            pace = self._paces[place.hook]
            pace.under_way -= 1
            if place in self._held:
                self._waiting.append(place)
            else:
                self._at_hand.discard(place)
                pace.at_hand -= 1
            self._changed.notify_all()

    def _has_room(self, host: str) -> bool:
        return self._hosts[host] < MOST_OF_HOST

    @contextmanager
    def _to_host(self, place: DeliveryPlace, host: str) -> Iterator[bool]:
        """Yield whether a request to a host may begin, and count it until it has ended.

        If it may not, the delivery waits for one to that host to end.
        """
        with self._changed:
            may_begin = self._has_room(host)
            if may_begin:
                self._hosts[host] += 1
            else:
                self._held[place] = host
        try:
            yield may_begin
        finally:
            with self._changed:
                self._hosts[host] -= may_begin
                if not self._hosts[host]:
                    del self._hosts[host]

    # ---- one delivery

    def _deliver(self, place: DeliveryPlace) -> None:
        hook = self._store.hooks.read(place.hook)
        event = self._store.deliveries.take(place, _LEASE_S)
        if event is None:
            return
        if hook is None or hook.disabled is not None:
            self._store.deliveries.remove(place)
            if hook is not None:
                self._store.hooks.count(hook.name, "given_up")
            return
        if event.others and not event.attempts:
            logger.warning(
                "event %s is wanted by %d more hooks; only the first 8 by name are told",
                event.event_id,
                event.others,
            )
        url = event.url or hook.url
        # Where Apprise sends is its own business.
        host = hook.name if hook.is_notification else urlsplit(url).netloc.lower()
        with self._to_host(place, host) as may_begin:
            if may_begin:
                self._send(place, hook, event, url)

    def _send(self, place: DeliveryPlace, hook: Hook, event: HookEvent, url: str) -> None:
        began_s, sent_ms = monotonic(), self._store.clock.now_ms()
        try:
            body = self._body_of(event, hook.name)
            if hook.is_notification:
                reply = self._notifier.send(hook.name, body)
            else:
                headers = self._headers(hook, event, sent_ms, body)
                allow_private = self._store.settings.allow_private_addresses
                reply = post(url, body, headers, allow_private=allow_private)
        except SettingInvalid as error:
            reply = HookReply(None, f"not sent: {error}")
        except RedisError:
            raise
        except Exception as error:  # an attempt, or it would be tried again each minute for ever
            logger.exception("cannot deliver to hook '%s'", hook.name)
            why = f"{type(error).__name__}, of which the scheduler's log has more"
            reply = HookReply(None, f"not sent: {why}")
        took_ms = round(1000 * (monotonic() - began_s))
        self._settle(place, hook, event, reply, sent_ms, took_ms)

    def _headers(self, hook: Hook, event: HookEvent, sent_ms: int, body: bytes) -> dict[str, str]:
        keys = [self._key.open(each.sealed) for each in good_secrets(hook.secrets, sent_ms)]
        at_s = sent_ms // 1000
        return {
            "Content-Type": "application/json",
            "User-Agent": "Sleipnir",
            "webhook-id": event.event_id,
            "webhook-timestamp": str(at_s),
            "webhook-signature": signature(keys, event.event_id, at_s, body),
        }

    def _settle(
        self,
        place: DeliveryPlace,
        hook: Hook,
        event: HookEvent,
        reply: HookReply,
        sent_ms: int,
        took_ms: int,
    ) -> None:
        number, next_ms = event.attempts + 1, None
        pause = None if reply.is_delivered else pause_s(number, reply.retry_after_s)
        if pause is None or reply.status == _GONE:
            was_open = self._store.deliveries.remove(place)
        else:
            next_ms = self._store.clock.now_ms() + int(1000 * pause)
            was_open = self._store.deliveries.retry(place, replace(event, attempts=number), pause)
        if not was_open:  # nothing is to be known of a hook that was deleted meanwhile
            return
        attempt = Attempt(
            event_id=event.event_id,
            event=event.event,
            subject=event.subject,
            at_ms=event.at_ms,
            sent_ms=sent_ms,
            number=number,
            status=reply.status,
            took_ms=took_ms,
            problem=reply.problem,
            next_ms=next_ms,
            url=event.url,
        )
        if next_ms is None and not reply.is_delivered:
            self._store.hooks.count(hook.name, "given_up")
        since_ms = self._store.hooks.note_outcome(
            hook.name, is_delivered=reply.is_delivered, is_own=event.url is not None
        )
        if event.url is None:  # what a run's own URL does is no fault of the hook
            self._judge(hook, reply, since_ms)
        # Last: who sees an attempt sees what came of it.
        self._store.deliveries.note(hook.name, attempt)

    def _judge(self, hook: Hook, reply: HookReply, failing_since_ms: int | None) -> None:
        """Disable a hook whose receiver is gone, or has failed for too long."""
        if reply.status == _GONE:
            self._disable(hook.name, "the receiver replied 410 Gone")
        elif (
            failing_since_ms is not None
            and self._store.clock.now_ms() - failing_since_ms > 1000 * PATIENCE_S
        ):
            since = to_rfc3339(failing_since_ms)
            self._disable(hook.name, f"every attempt has failed since {since}")

    def _disable(self, name: str, reason: str) -> None:
        for _ in range(_ANOTHER_CHANGE):
            hook = self._store.hooks.read(name)
            if hook is None or hook.disabled is not None:
                return
            try:
                self._store.hooks.put(replace(hook, disabled=reason), hook)
            except DefinitionChanged:
                continue
            logger.error("hook '%s' is disabled: %s", name, reason)
            return
