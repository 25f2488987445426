"""The one source of "now" that decisions use: the clock of Redis, in milliseconds.

Workers measure durations with `time.monotonic`; nobody compares wall clocks of machines.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import redis


class RedisClock:
    """The clock of one Redis.

    Args:
        moved: the time in ms by a clock that tests move, in its place.
    """

    def __init__(self, client: redis.Redis, moved: Callable[[], int] | None = None) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._moved = moved

    def now_ms(self) -> int:
        """What it shows."""
        if self._moved is not None:
            return self._moved()
        seconds, microseconds = self._redis.time()
        return int(seconds) * 1000 + int(microseconds) // 1000

    def argument(self) -> str:
        """What scripts take for the time; '' lets them ask Redis."""
        return "" if self._moved is None else str(self._moved())

    def started_ms(self) -> int:
        """Return when this Redis started; 0 by a clock that tests move, which knows of no start."""
        if self._moved is not None:
            return 0
        return self.now_ms() - int(self._redis.info("server")["uptime_in_seconds"]) * 1000


def to_rfc3339(ms: int) -> str:
    """Return an instant of the Redis clock as RFC 3339 text in UTC."""
    return (
        datetime.fromtimestamp(ms / 1000, tz=UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
