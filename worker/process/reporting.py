"""What a worker process tells its supervisor of itself, each second."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from celery.signals import worker_ready

from sleipnir.scheduler.process.health.beats import Beat, report_to
from sleipnir.scheduler.process.health.figures import BUSY, SLOTS
from sleipnir.scheduler.process.health.pulse import Pulse
from sleipnir.worker.delivery.services import Services
from sleipnir.worker.process.wear import worn


class Reporting:
    """Knows when this process takes messages, and when Redis answered it."""

    def __init__(self, services: Services) -> None:
        self.pulse = Pulse(services.figures)
        self._services = services
        self._has_begun = False
        self.tell: Callable[[], None] = lambda: None  # the supervisor, once there is one
        worker_ready.connect(self._begin, weak=False)

    def start(self, descriptor: int) -> None:
        """Report over a socket that the supervisor has opened."""
        self.tell = report_to(descriptor, self._beat)

    def _begin(self, **_: Any) -> None:
        self._has_begun = True

    def _beat(self) -> Beat:
        services = self._services
        return Beat(
            pid=os.getpid(),
            takes=self._has_begun and not services.leases.closed,
            redis_age_s=self.pulse.age_s(),
            worn=worn(services.settings, services.leases),
            counters=services.figures.samples(),
            gauges={SLOTS: services.settings.concurrency, BUSY: len(services.leases.held())},
        )
