"""The base of all queries: the connection they read from, and the clock of runs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import redis

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.queries.reads import Reads, carry_out

# Most engines have no archive.
with lazy_imports():
    from sleipnir.scheduler.store.archive import layered

if TYPE_CHECKING:
    from sleipnir.scheduler.store.archive.archived_runs import ArchivedRuns

T = TypeVar("T")


class Queries:
    """Reads of one Redis.

    Args:
        archived: has what the archive has of its runs.
    """

    def __init__(
        self,
        client: redis.Redis,
        clock: RedisClock | None = None,
        archived: ArchivedRuns | None = None,
    ) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._clock = clock or RedisClock(client)
        self._archived = archived

    @cached_property
    def _parts(self) -> Any:
        """The same Redis, with what the archive has of single runs; lists do without."""
        if self._archived is None:
            return self._redis
        return layered.LayeredRedis(self._redis, self._archived)

    def _carry_out(self, reads: Reads[T]) -> T:
        return carry_out(self._parts, reads)

    def now_ms(self) -> int:
        """Return the time by the clock that runs are stamped with, in ms."""
        return self._clock.now_ms()
