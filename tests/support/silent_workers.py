"""Workers that are only said to be there."""

from __future__ import annotations

import redis

from sleipnir.scheduler.store.clock import RedisClock
from sleipnir.scheduler.store.machines import Machines, WorkerState


def fall_silent(client: redis.Redis, worker: WorkerState, silent_s: int) -> None:
    """Announce a worker that has not been heard of since."""
    heard_ms = RedisClock(client).now_ms() - silent_s * 1000
    Machines(client, RedisClock(client, lambda: heard_ms)).announce(worker, with_queue=True)
