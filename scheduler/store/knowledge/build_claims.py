"""Claims to build a knowledge base: one run holds the claim, the other runs wait for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import redis
from redis.exceptions import WatchError

from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.store.keys import build_claim_key, build_waiters_key, run_key

# Whether the holding run has ended is checked when another run wants the claim.
_HELD_MS = 86_400_000
_WOKEN_AT_ONCE = 100


class BuildClaims:
    """Build claims by name, usually the address of the index.

    They only save work: equal inputs make the same index, so two builds would do no harm.

    Args:
        lease_s: how long a claim is valid before its run exists.
        wake: wakes a resting visit, given its run id and visit id.
    """

    def __init__(
        self, client: redis.Redis, lease_s: float, wake: Callable[[str, str], object]
    ) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client
        self._lease_ms = round(lease_s * 1000)
        self._wake = wake

    def take_or_wait(self, name: str, run_id: str, waiter: tuple[str, str]) -> bool:
        """Take the claim as `take` does; else let `release` wake the `waiter`.

        Args:
            waiter: run id and visit.
        """
        if self.take(name, run_id):
            return True
        waiters, member = build_waiters_key(name), " ".join(waiter)
        with self._redis.pipeline(transaction=True) as pipe:
            pipe.sadd(waiters, member)
            pipe.pexpire(waiters, _HELD_MS)
            pipe.execute()
        # If it was released in between, nobody would wake the visit.
        if not self.take(name, run_id):
            return False
        self._redis.srem(waiters, member)
        return True

    def take(self, name: str, run_id: str) -> bool:
        """Return whether the run, which need not exist yet, now holds the claim."""
        key = build_claim_key(name)
        if self._redis.set(key, run_id, px=self._lease_ms, nx=True):
            return True
        holder = self._redis.get(key)
        if holder == run_id:
            self._redis.pexpire(key, _HELD_MS)
            return True
        if holder is None:
            return False  # it was released just now: the next attempt gets it
        status = self._redis.hget(run_key("run", holder), "status")
        if status in FINAL:
            return self._take_over(key, holder, run_id)
        if status is not None:
            self._redis.pexpire(key, _HELD_MS)
        return False

    def release(self, name: str, run_id: str) -> None:
        """Release the claim and wake the visits that wait for it."""
        key, waiters = build_claim_key(name), build_waiters_key(name)
        if self._redis.get(key) != run_id:
            return
        self._redis.delete(key)
        while members := self._redis.spop(waiters, _WOKEN_AT_ONCE):
            for member in members:
                self._wake(*member.split(" "))

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
