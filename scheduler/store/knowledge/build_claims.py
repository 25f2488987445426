"""Claims to build a knowledge base: one run holds the claim, the other runs wait for it."""

from __future__ import annotations

from typing import Any

from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.store.keys import build_claim_key, run_key
from sleipnir.scheduler.store.run_store import RunStore

# Whether the holding run has ended is checked when another run wants the claim.
_HELD_MS = 86_400_000


class BuildClaims:
    """Build claims by name, usually the address of the index.

    They only save work: equal inputs make the same index, so two builds would do no harm. Until its
    run exists, a claim is valid as long as a lease.
    """

    def __init__(self, store: RunStore) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = store.client
        self._lease_ms = round(store.settings.lease_s * 1000)
        self._partitions = store.partitions

    def take(self, name: str, run_id: str) -> bool:
        """Return whether the run, which need not exist yet, now holds the claim."""
        key = build_claim_key(name)
        if self._redis.set(key, run_id, px=self._lease_ms, nx=True):
            return True
        holder = self._redis.get(key)
        if holder is None:
            return False  # it was released just now: the next attempt gets it
        status = None if holder == run_id else self._redis.hget(run_key("run", holder), "status")
        if status in FINAL:  # it ended without a release, because it was cancelled or killed
            self._redis.delete(key)
            return bool(self._redis.set(key, run_id, px=self._lease_ms, nx=True))
        if status is not None or holder == run_id:
            self._redis.pexpire(key, _HELD_MS)
        return bool(holder == run_id)

    def release(self, name: str, run_id: str) -> None:
        """Release the claim and resume the visits that wait for it."""
        key = build_claim_key(name)
        if self._redis.get(key) == run_id:
            self._redis.delete(key)
            self._partitions.close_builds(name)
