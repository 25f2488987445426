"""The base of all queries: the connection they read from, and the clock of runs."""

from __future__ import annotations

from typing import Any, TypeVar

import redis

from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.queries.reads import Reads, carry_out

T = TypeVar("T")


class Queries:
    """Reads of one Redis."""

    def __init__(self, client: redis.Redis, clock: RedisClock | None = None) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._clock = clock or RedisClock(client)

    def _carry_out(self, reads: Reads[T]) -> T:
        return carry_out(self._redis, reads)

    def now_ms(self) -> int:
        """Return the time by the clock that runs are stamped with, in ms."""
        return self._clock.now_ms()
