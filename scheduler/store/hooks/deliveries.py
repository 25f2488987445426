"""Deliveries: what hooks have yet to be told, and what became of attempts.

Whoever delivers takes a delivery for a while; if it dies, the delivery is due again after that.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final, Self

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS, partition_of
from sleipnir.scheduler.store.hooks.records import (
    Attempt,
    HookEvent,
    attempt_of,
    attempt_text,
    told_of,
    told_text,
)
from sleipnir.scheduler.store.keys import attempts_key, deliveries_key, timers_key
from sleipnir.scheduler.store.transitions import Transitions

MOST_KEPT: Final = 100
KEPT_S: Final = 7 * 86400


@dataclass(frozen=True, slots=True)
class DeliveryPlace:
    """Where a delivery is stored."""

    digits: str  # the partition's
    hook: str
    event_id: str

    @classmethod
    def of(cls, number: int, field: str) -> Self:
        """Return the place of a field in the deliveries of a partition, given by its number."""
        hook, _, event_id = field.rpartition(" ")
        return cls(f"{number:02x}", hook, event_id)

    @property
    def partition(self) -> str:
        return partition_of(self.digits)

    @property
    def field(self) -> str:
        return f"{self.hook} {self.event_id}"

    @property
    def timer(self) -> str:
        return f"hook {self.digits} {self.field}"


class HookDeliveries:
    """Open deliveries of all partitions, and a log of attempts of each hook."""

    def __init__(self, store: Transitions) -> None:
        self._store = store
        self._clock = store.clock
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = store.client

    def take(self, place: DeliveryPlace, lease_s: float) -> HookEvent | None:
        """Take a delivery for a while; return None if it is no longer open."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hget(deliveries_key(place.partition), place.field)
            pipe.zadd(timers_key(place.partition), {place.timer: self._after(lease_s)}, xx=True)
            text, _ = pipe.execute()
        if text is None:
            self._redis.zrem(timers_key(place.partition), place.timer)
            return None
        return told_of(place.event_id, text)

    def postpone(self, place: DeliveryPlace, by_s: float) -> None:
        """Try a delivery later."""
        self._redis.zadd(timers_key(place.partition), {place.timer: self._after(by_s)}, xx=True)

    def retry(self, place: DeliveryPlace, told: HookEvent, by_s: float) -> bool:
        """Write what has become of a delivery, and try it again later.

        Returns:
            False if it was removed meanwhile, which it then stays.
        """
        answer = self._store.transition("retry_delivery")(
            place.partition,
            place.field,
            told_text(told),
            place.timer,
            self._after(by_s),
            clock=self._clock.argument(),
        )
        return bool(answer.is_open)

    def remove(self, place: DeliveryPlace) -> bool:
        """Remove a delivery that has arrived, or is given up; return whether it was open."""
        with self._redis.pipeline(transaction=True) as pipe:
            pipe.hdel(deliveries_key(place.partition), place.field)
            pipe.zrem(timers_key(place.partition), place.timer)
            return bool(pipe.execute()[0])

    def drop(self, hook: str) -> None:
        """Remove all open deliveries of a hook, so that a later one of its name gets none."""
        with self._redis.pipeline(transaction=False) as pipe:
            for place in self._places():
                if place.hook == hook:
                    pipe.hdel(deliveries_key(place.partition), place.field)
                    pipe.zrem(timers_key(place.partition), place.timer)
            pipe.execute()

    def note(self, hook: str, attempt: Attempt) -> None:
        """Add to the log of a hook, which keeps the last attempts."""
        key = attempts_key(hook)
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.lpush(key, attempt_text(attempt))
            pipe.ltrim(key, 0, MOST_KEPT - 1)
            pipe.expire(key, KEPT_S)
            pipe.execute()

    def attempts(self, hook: str) -> list[Attempt]:
        """Return the last attempts of a hook, the newest first."""
        found = map(attempt_of, self._redis.lrange(attempts_key(hook), 0, MOST_KEPT - 1))
        oldest_ms = self._after(-KEPT_S)
        return [attempt for attempt in found if attempt.sent_ms >= oldest_ms]

    def count_open(self) -> int:
        """Return the number of open deliveries of all hooks."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hlen(deliveries_key(partition))
            return sum(pipe.execute())

    def count_by_hook(self) -> Counter[str]:
        """Return the number of open deliveries of each hook that has any."""
        return Counter(place.hook for place in self._places())

    def read_open(self) -> list[tuple[DeliveryPlace, HookEvent]]:
        """Return all open deliveries, the oldest first."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hgetall(deliveries_key(partition))
            answers = pipe.execute()
        places = [
            (DeliveryPlace.of(number, field), text)
            for number, stored in enumerate(answers)
            for field, text in stored.items()
        ]
        found = [(place, told_of(place.event_id, text)) for place, text in places]
        return sorted(found, key=lambda each: each[1].at_ms)

    def _places(self) -> list[DeliveryPlace]:
        """Return where all open deliveries are."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hkeys(deliveries_key(partition))
            return [
                DeliveryPlace.of(number, field)
                for number, stored in enumerate(pipe.execute())
                for field in stored
            ]

    def _after(self, seconds: float) -> int:
        return self._clock.now_ms() + int(1000 * seconds)
