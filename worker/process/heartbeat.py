"""The heartbeat of a worker: announces that it and its machine are alive."""

from __future__ import annotations

import logging
import os
import threading
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from math import inf
from time import monotonic

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.process.health.pulse import Pulse
from sleipnir.scheduler.process.periodic import repeat
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.machines import PRESENT_EVERY_S, Machines, WorkerState
from sleipnir.worker.process.draining import Draining
from sleipnir.worker.process.wear import memory_bytes
from sleipnir.worker.visit.lease import Leases

logger = logging.getLogger("sleipnir.worker")

_EVERY_S = 5.0
# Sooner, if it begins to work, has nothing to do any more, or drains: an autoscaler would otherwise
# end a worker that has just taken the last message.
_LOOKS_EVERY_S = 1.0


class Heartbeat:
    """Announces this worker periodically, from a thread of its own, until it ends.

    Runs that need a directory of one machine are pinned to it only while it is announced.

    Args:
        draining: hears what Redis answers.
        with_queue: whether this worker takes such runs.
    """

    def __init__(
        self,
        machines: Machines,
        settings: Settings,
        leases: Leases,
        pulse: Pulse,
        draining: Draining,
        *,
        with_queue: bool,
    ) -> None:
        self._machines = machines
        self._pulse = pulse
        self._draining = draining
        self._with_queue = with_queue
        self._state = partial(_state, settings, leases, monotonic(), _version())
        self._announced = self._state()
        self._announced_at = self._present_at = -inf
        # Held while Redis is told: a beat on its way would bring back a worker that has ended.
        self._telling = threading.Lock()
        self._has_ended = False

    @property
    def name(self) -> str:
        return self._announced.name

    def start(self) -> None:
        """Announce this worker, and go on doing so."""
        self._beat()
        repeat(self._beat, _LOOKS_EVERY_S, "machine-heartbeat")

    def end(self) -> None:
        """Record that this worker has ended; it is announced no more.

        Raises:
            RedisError: it will be taken for lost.
        """
        with self._telling:
            self._has_ended = True
            self._machines.leave(self._announced)

    def _beat(self) -> None:
        self._draining.tend()
        now, before = self._state(), self._announced
        changed = (now.busy > 0, now.draining) != (before.busy > 0, before.draining)
        if not changed and monotonic() - self._announced_at < _EVERY_S:
            return
        with self._telling:
            if not self._has_ended:
                self._tell(now)

    def _tell(self, now: WorkerState) -> None:
        try:
            with self._pulse.calling():
                if monotonic() - self._present_at < PRESENT_EVERY_S:
                    asked = self._machines.beat(now, with_queue=self._with_queue)
                else:
                    asked = self._machines.announce(now, with_queue=self._with_queue)
                    self._present_at = monotonic()
            self._draining.follow(asked)
        except RedisError as error:
            logger.debug("cannot publish the worker's heartbeat: %s", error)
            self._present_at = -inf
        self._announced, self._announced_at = now, monotonic()


def _state(
    settings: Settings, leases: Leases, started: float, installed: str | None
) -> WorkerState:
    taken_at, taken = leases.latest()
    held = [lease for lease, _ in leases.held()]
    return WorkerState(
        machine=settings.machine_name,
        pid=os.getpid(),
        slots=settings.concurrency,
        busy=len(held),
        taken=taken,
        idle_s=round(monotonic() - (taken_at or started), 1),
        memory_bytes=memory_bytes(),
        incarnation=leases.worker_id,
        version=installed,
        age_s=round(monotonic() - started, 1),
        draining=leases.closed,
        queues=tuple(dict.fromkeys(settings.queues)),
        visits=tuple(f"{lease.run_id} {lease.visit}" for lease in held),
    )


def _version() -> str | None:
    """Return the version of Sleipnir; None if it is not installed as a package."""
    try:
        return version("sleipnir")
    except PackageNotFoundError:
        return None
