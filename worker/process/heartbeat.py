"""The heartbeat of a worker: announces that it and its machine are alive."""

from __future__ import annotations

import logging
import os
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


def announce(
    machines: Machines,
    settings: Settings,
    leases: Leases,
    pulse: Pulse,
    draining: Draining,
    *,
    with_queue: bool,
) -> WorkerState:
    """Announce this worker periodically, from a thread of its own, while the process lives.

    Returns its first record. Runs that need a directory of one machine are pinned to it only while
    it is announced.

    Args:
        draining: hears what Redis answers.
        with_queue: whether this worker takes such runs.
    """
    state = partial(_state, settings, leases, monotonic(), _version())
    announced, announced_at, present_at = state(), -inf, -inf

    def beat() -> None:
        nonlocal announced, announced_at, present_at
        draining.tend()
        now = state()
        changed = (now.busy > 0, now.draining) != (announced.busy > 0, announced.draining)
        if not changed and monotonic() - announced_at < _EVERY_S:
            return
        try:
            with pulse.calling():
                if monotonic() - present_at < PRESENT_EVERY_S:
                    asked = machines.beat(now, with_queue=with_queue)
                else:
                    asked = machines.announce(now, with_queue=with_queue)
                    present_at = monotonic()
            draining.follow(asked)
        except RedisError as error:
            logger.debug("cannot publish the worker's heartbeat: %s", error)
            present_at = -inf
        announced, announced_at = now, monotonic()

    beat()
    repeat(beat, _LOOKS_EVERY_S, "machine-heartbeat")
    return announced


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
