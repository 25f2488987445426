"""Which build of a knowledge base goes on: one run holds the claim, and others wait for it."""

from __future__ import annotations

from typing import Any

import redis
from redis.exceptions import WatchError

from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.store.keys import build_claim_key, run_key

# A claim of a run that does not end is checked when somebody else wants it.
_HELD_MS = 86_400_000


class BuildClaims:
    """Claims by name, mostly the address of what is built.

    They save work, no more: equal inputs make the same index, so two builds would do no harm.

    Args:
        lease_s: how long a run may hold a claim before it exists.
    """

    def __init__(self, client: redis.Redis, lease_s: float) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._lease_ms = round(lease_s * 1000)

    def take(self, name: str, run_id: str) -> bool:
        """Whether the build of that run is the one that goes on; it may be about to be started."""
        key = build_claim_key(name)
        if self._redis.set(key, run_id, px=self._lease_ms, nx=True):
            return True
        holder = self._redis.get(key)
        if holder == run_id:
            self._redis.pexpire(key, _HELD_MS)
            return True
        if holder is None:
            return False  # it has just ended: see the next time
        status = self._redis.hget(run_key("run", holder), "status")
        if status in FINAL:
            return self._take_over(key, holder, run_id)
        if status is not None:
            self._redis.pexpire(key, _HELD_MS)
        return False

    def release(self, name: str, run_id: str) -> None:
        """The build is over."""
        key = build_claim_key(name)
        if self._redis.get(key) == run_id:
            self._redis.delete(key)

    def _take_over(self, key: str, holder: str, run_id: str) -> bool:
        with self._redis.pipeline() as pipe:
            pipe.watch(key)
            if pipe.get(key) != holder:
                return False
            pipe.multi()
            pipe.set(key, run_id, px=self._lease_ms)
            try:
                pipe.execute()
            except WatchError:
                return False
        return True
