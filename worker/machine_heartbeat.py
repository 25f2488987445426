"""The heartbeat of a machine: tells everybody that a worker of it is alive."""

from __future__ import annotations

import logging
import threading

import redis
from redis.exceptions import RedisError

from sleipnir.scheduler.store.keys import machine_key

logger = logging.getLogger("sleipnir.worker")

_EVERY_S = 5.0
_EXPIRES_S = 20


def announce(client: redis.Redis, machine: str) -> None:
    """Keep saying so, from a thread of its own, for the life of this process.

    Runs that need a directory of one machine are pinned to it only while this is said.
    """
    threading.Thread(
        target=_announce, args=(client, machine), name="machine-heartbeat", daemon=True
    ).start()


def _announce(client: redis.Redis, machine: str) -> None:
    pause = threading.Event()
    while True:
        try:
            client.set(machine_key(machine), "1", ex=_EXPIRES_S)
        except RedisError as error:
            logger.debug("cannot publish the machine heartbeat: %s", error)
        pause.wait(_EVERY_S)
