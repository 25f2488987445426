"""Drains a worker process that was asked to over Redis, until that is taken back or it is idle."""

from __future__ import annotations

import logging
import os
import signal
from time import monotonic

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.embedded.supervisor import DRAINED
from sleipnir.worker.celery.broker import in_hand, pause_receiving
from sleipnir.worker.visit.lease import Leases

logger = logging.getLogger("sleipnir.worker")


class Draining:
    """Whether this process is to end once its visits have."""

    def __init__(self, settings: Settings, leases: Leases) -> None:
        self._drain_s = settings.drain_s
        # Another broker hands out messages itself, until this process begins to end.
        self._can_pause = settings.broker_url in (None, settings.redis_url)
        self._leases = leases
        self._asked_at: float | None = None
        self._is_ending = False
        self.exit_code = 0  # to end with

    def left_s(self) -> float:
        """Return how much time running visits still have once this process ends."""
        asked_s = 0.0 if self._asked_at is None else monotonic() - self._asked_at
        return max(0.0, self._drain_s - asked_s)

    def begin_to_end(self) -> None:
        """Take no more visits, whatever is asked from now on."""
        self._is_ending = True
        self._leases.closed = True

    def follow(self, asked: bool) -> None:
        """Do what Redis says: begin to drain, or take messages again."""
        if self._is_ending or asked == (self._asked_at is not None):
            return
        logger.info("asked to drain" if asked else "asked to take visits again")
        self._asked_at = monotonic() if asked else None
        self._leases.closed = asked
        pause_receiving(asked)

    def tend(self) -> None:
        """End this process if it is to drain and has nothing to do, or no more time for it."""
        if self._asked_at is None or self._is_ending:
            return
        is_busy = bool(self._leases.held()) or in_hand() > 0
        if self._can_pause and is_busy and self.left_s() > 0:
            return
        self.exit_code = DRAINED
        self.begin_to_end()
        os.kill(os.getpid(), signal.SIGTERM)
