"""The heartbeat of a machine: tells everybody that a worker of it is alive."""

from __future__ import annotations

import logging

from sleipnir.scheduler.periodic import repeat
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.machines import Machines

logger = logging.getLogger("sleipnir.worker")

_EVERY_S = 5.0
_EXPIRES_S = 20


def announce(machines: Machines, machine: str) -> None:
    """Keep saying so, from a thread of its own, for the life of this process.

    Runs that need a directory of one machine are pinned to it only while this is said.
    """

    def beat() -> None:
        try:
            machines.announce(machine, _EXPIRES_S)
        except RedisError as error:
            logger.debug("cannot publish the machine heartbeat: %s", error)

    beat()
    repeat(beat, _EVERY_S, "machine-heartbeat")
