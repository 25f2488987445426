"""The health of a scheduler's process."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.scheduler.process.health.door import ThreadLoop
from sleipnir.scheduler.process.health.figures import exposition
from sleipnir.scheduler.process.health.service import Health
from sleipnir.scheduler.process.health.verdict import STANDS_STILL_S, redis_silent
from sleipnir.scheduler.service.scheduler import Scheduler
from sleipnir.scheduler.store.telemetry.run_spans import figures_of


class SchedulerHealth:
    """Answers for a scheduler, from a thread.

    Args:
        lease_s: Redis may be silent for two leases.
    """

    def __init__(self, scheduler: Scheduler, lease_s: float) -> None:
        self._scheduler = scheduler
        self._longest_s = 2 * lease_s
        self._is_stopping = False
        self._figures = figures_of(scheduler.run_spans)
        self._health = Health(
            self._not_live, self._not_ready, lambda: exposition(self._figures.samples())
        )

    def open(self, address: str | None) -> None:
        """Answer at `HOST:PORT`, if given, and tell systemd.

        Raises:
            OSError: the address cannot be used.
            ValueError: it is not HOST:PORT.
        """
        loop = ThreadLoop()
        self._health.open(address, loop)
        loop.start()

    def stopping(self) -> None:
        """Be ready no more, and say so."""
        self._is_stopping = True
        self._health.stopping()

    def _not_live(self) -> Iterator[str]:
        stands_s = self._scheduler.stands_still_s()
        if stands_s > STANDS_STILL_S:
            yield f"the scheduler's loop has not turned for {stands_s:.0f} s"

    def _not_ready(self) -> Iterator[str]:
        if self._is_stopping:
            yield "draining"
        yield from redis_silent("the scheduler", self._scheduler.redis_age_s(), self._longest_s)
