"""The health of the monitor's process: its event loop, and whether Redis answers it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from sleipnir.scheduler.process.health.door import ThreadLoop
from sleipnir.scheduler.process.health.figures import exposition
from sleipnir.scheduler.process.health.pulse import Pulse
from sleipnir.scheduler.process.health.service import Health
from sleipnir.scheduler.process.health.verdict import STANDS_STILL_S, redis_silent
from sleipnir.scheduler.process.periodic import repeat
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.telemetry.run_spans import figures_of
from sleipnir.worker.monitor.self_metrics import LoopLag
from sleipnir.worker.monitor.site import Site

logger = logging.getLogger(__name__)

_EVERY_S = 5.0


class MonitorHealth:
    """Answers for the monitor, from a thread.

    Args:
        lease_s: Redis may be silent for two leases.
    """

    def __init__(self, site: Site, lease_s: float) -> None:
        self._loop_lag: LoopLag = site.figures.loop_lag
        self._clock = site.client.store.clock
        self._longest_s = 2 * lease_s
        figures = figures_of(site.client.store.run_spans)
        self._pulse = Pulse(figures)
        self._health = Health(
            self._not_live, self._not_ready, lambda: exposition(figures.samples())
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
        repeat(self._ask, _EVERY_S, "redis-pulse")

    def stopping(self) -> None:
        """Tell systemd that the process is about to end."""
        self._health.stopping()

    def _ask(self) -> None:
        try:
            with self._pulse.calling():
                self._clock.now_ms()
        except RedisError as error:
            logger.debug("Redis does not answer: %s", error)

    def _not_live(self) -> Iterator[str]:
        stands_s = self._loop_lag.stands_still_s()
        if stands_s > STANDS_STILL_S:
            yield f"the monitor's event loop has not turned for {stands_s:.0f} s"

    def _not_ready(self) -> Iterator[str]:
        yield from redis_silent("the monitor", self._pulse.age_s(), self._longest_s)
