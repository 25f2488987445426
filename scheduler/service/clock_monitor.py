"""Detects time that must not count against runs: outages of Redis, and changes of its clock.

The clock of Redis decides what is due. When it jumps, or after an outage of Redis, all timers are
shifted: limits of runs and nodes, leases, pauses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sleipnir.records import dataclass
from sleipnir.scheduler.store.rate_limiter import set_clock_ahead
from sleipnir.scheduler.store.run_store import RunStore

logger = logging.getLogger("sleipnir.scheduler")

# A call takes milliseconds: one that takes longer than this means that Redis was away, ...
_AWAY_S = 1.0
# ... and after this long, runs could not have kept their limits.
_LONG_AWAY_S = 30.0
# Clock slewing changes less than this within a tick; anything more means the clock was set.
_JUMP_S = 5.0


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Both clocks at one instant."""

    redis_ms: int
    own_s: float  # monotonic


def jump_ms(before: ClockReading, after: ClockReading) -> int:
    """Return by how much Redis' clock was set forward (or back) between two readings, 0 if not."""
    expected_ms = before.redis_ms + round((after.own_s - before.own_s) * 1000)
    jump = after.redis_ms - expected_ms
    return jump if abs(jump) > _JUMP_S * 1000 else 0


class ClockMonitor:
    """Compares both clocks at each tick of one scheduler, and measures outages of Redis."""

    def __init__(self, store: RunStore, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._last: ClockReading | None = None
        self._calling_since: float | None = None
        self._away_s = 0.0

    @property
    def seen_ms(self) -> int:
        """Redis' clock at the last `look`."""
        return self._last.redis_ms if self._last else 0

    @property
    def was_away(self) -> bool:
        """Whether Redis was away since the last `look`."""
        return self._away_s > _AWAY_S

    @property
    def is_calling(self) -> bool:
        """Whether a call of Redis is under way, or has failed and is to be repeated."""
        return self._calling_since is not None

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Time a call of Redis; a failed call counts until the next one succeeds."""
        if self._calling_since is None:
            self._calling_since = self._monotonic()
        yield
        self._away_s = max(self._away_s, self._monotonic() - self._calling_since)
        self._calling_since = None

    def look(self) -> bool:
        """Read the clocks, and shift timers if time was lost; return True if Redis was away."""
        with self.calling():
            redis_ms = self._store.clock.now_ms()
        last, self._last = self._last, ClockReading(redis_ms, self._monotonic())
        was_away, away_s, self._away_s = self.was_away, self._away_s, 0.0
        if last is None:
            # The previous scheduler may have died with Redis, and cannot tell.
            self._shift_timers(back_ms=self._store.clock.started_ms(), level=logging.INFO)
        elif away_s > _LONG_AWAY_S:
            self._shift_timers(back_ms=redis_ms)
        elif jump := jump_ms(last, self._last):
            self._shift_timers(expected_ms=redis_ms - jump)
        return was_away

    def _shift_timers(
        self, *, back_ms: int = 0, expected_ms: int = 0, level: int = logging.WARNING
    ) -> None:
        gaps_ms = self._store.partitions.shift_timers(back_ms, expected_ms, _LONG_AWAY_S)
        if expected_ms and gaps_ms[0]:  # only one of several schedulers gets here with a gap
            set_clock_ahead(self._store.client, -gaps_ms[0])
        if moved := [gap for gap in gaps_ms if gap]:
            logger.log(
                level,
                "%s: moved all time limits and timers of %d partitions by %+.0f s",
                "Redis was unreachable" if back_ms else "the clock of Redis was set",
                len(moved),
                max(moved, key=abs) / 1000,
            )
