"""Finds time that must not count against runs: Redis was away, or its clock was set.

The clock of Redis decides what is due. When it jumps, or when nobody could reach Redis for a
while, everything that is waited for is moved along: limits of runs and nodes, leases, pauses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sleipnir.records import dataclass
from sleipnir.scheduler.store.rate_limiter import set_clock_ahead
from sleipnir.scheduler.store.run_store import RunStore

logger = logging.getLogger("sleipnir.scheduler")

# A call takes milliseconds: after this long Redis was away, ...
_AWAY_S = 1.0
# ... and for so long that runs could do nothing about their limits.
_LONG_AWAY_S = 30.0
# Clocks are slowed and sped up by less than this in the time of a tick; what is more was set.
_JUMP_S = 5.0


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Both clocks at one instant."""

    redis_ms: int
    own_s: float  # monotonic


def jump_ms(before: ClockReading, after: ClockReading) -> int:
    """How far Redis' clock was set forward (or back) between two readings; 0 if it was not."""
    expected_ms = before.redis_ms + round((after.own_s - before.own_s) * 1000)
    jump = after.redis_ms - expected_ms
    return jump if abs(jump) > _JUMP_S * 1000 else 0


class ClockMonitor:
    """Compares the clocks at each tick of one scheduler, and watches how long Redis is away."""

    def __init__(self, store: RunStore, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._last: ClockReading | None = None
        self._calling_since: float | None = None
        self._away_s = 0.0

    @property
    def seen_ms(self) -> int:
        """Redis' clock at the last look."""
        return self._last.redis_ms if self._last else 0

    @property
    def was_away(self) -> bool:
        """Whether Redis left a call waiting since the last look."""
        return self._away_s > _AWAY_S

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Around a call of Redis. One that fails lasts until another succeeds."""
        if self._calling_since is None:
            self._calling_since = self._monotonic()
        yield
        self._away_s = max(self._away_s, self._monotonic() - self._calling_since)
        self._calling_since = None

    def look(self) -> bool:
        """Read the clocks, and move along what waits if time was lost; True if Redis was away."""
        with self.calling():
            redis_ms = self._store.clock.now_ms()
        last, self._last = self._last, ClockReading(redis_ms, self._monotonic())
        was_away, away_s, self._away_s = self.was_away, self._away_s, 0.0
        if last is None:
            # The last scheduler may have ended with Redis, and can no longer tell.
            self._shift_timers(back_ms=self._store.clock.started_ms())
        elif away_s > _LONG_AWAY_S:
            self._shift_timers(back_ms=redis_ms)
        elif jump := jump_ms(last, self._last):
            self._shift_timers(expected_ms=redis_ms - jump)
        return was_away

    def _shift_timers(self, *, back_ms: int = 0, expected_ms: int = 0) -> None:
        gaps_ms = self._store.partitions.shift_timers(back_ms, expected_ms, _LONG_AWAY_S)
        if expected_ms and gaps_ms[0]:  # so one of many schedulers does it
            set_clock_ahead(self._store.client, -gaps_ms[0])
        if moved := [gap for gap in gaps_ms if gap]:
            logger.warning(
                "%s: moved all limits and timers of %d partitions by %+.0f s",
                "Redis was away" if back_ms else "the clock of Redis was set",
                len(moved),
                max(moved, key=abs) / 1000,
            )
