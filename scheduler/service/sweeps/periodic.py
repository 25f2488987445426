"""What the scheduler does at intervals, rather than when a timer is due."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from time import monotonic

from sleipnir.scheduler.store.errors import RedisError

logger = logging.getLogger("sleipnir.scheduler")


class Periodic:
    """Calls a sweep at intervals.

    Args:
        at_once: do so at first, too, rather than after the first interval.
    """

    def __init__(
        self,
        interval: timedelta,
        sweep: Callable[..., object],
        monotonic: Callable[[], float] = monotonic,
        *,
        at_once: bool = False,
    ) -> None:
        self._interval_s = interval.total_seconds()
        self._sweep = sweep
        self._monotonic = monotonic
        self._due_s = monotonic() + (0.0 if at_once else self._interval_s)

    def run_if_due(self, *given: object) -> None:
        """Call the sweep with these arguments, if the interval has passed.

        One that fails must not end the scheduler; it is tried again after the interval.

        Raises:
            RedisError: all others would fail, too.
        """
        if self._monotonic() < self._due_s:
            return
        self._due_s = self._monotonic() + self._interval_s
        try:
            self._sweep(*given)
        except RedisError:
            raise
        except Exception:
            logger.exception("cannot sweep")
