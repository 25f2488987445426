"""The only source of "now" for decisions: the clock of Redis, in milliseconds.

Workers measure durations with `time.monotonic`; wall clocks of machines are never compared.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis


class RedisClock:
    """The clock of one Redis server.

    Args:
        moved: returns the time in ms instead of Redis; for tests that move the clock.
    """

    def __init__(self, client: redis.Redis, moved: Callable[[], int] | None = None) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._moved = moved

    def now_ms(self) -> int:
        """Return the current time in ms."""
        if self._moved is not None:
            return self._moved()
        seconds, microseconds = self._redis.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def argument(self) -> str:
        """Return the time as scripts take it; "" lets them ask Redis themselves."""
        return "" if self._moved is None else str(self._moved())

    def started_ms(self) -> int:
        """Return when this Redis started, in ms; 0 with a moved clock, which has no start."""
        if self._moved is not None:
            return 0
        return self.now_ms() - int(self._redis.info("server")["uptime_in_seconds"]) * 1000


def to_rfc3339(ms: int) -> str:
    """Return an instant of the Redis clock, in ms, as RFC 3339 text in UTC."""
    return (
        datetime.fromtimestamp(ms / 1000, tz=UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
