"""Claims to build a knowledge base: one run holds the claim, the other runs wait for it."""

from __future__ import annotations

from collections.abc import Callable
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

        def attempt(pipe: Any) -> bool:
            holder = pipe.get(key)
            known = holder not in (None, run_id)
            # Not by `pipe`: on a cluster, that knows the claim's node only.
            status = self._redis.hget(run_key("run", holder), "status") if known else None
            pipe.multi()
            # A holder may have ended without a release, because it was cancelled or killed.
            if holder is None or status in FINAL:
                pipe.set(key, run_id, px=self._lease_ms)
                return True
            if holder == run_id or status is not None:
                pipe.pexpire(key, _HELD_MS)
            return bool(holder == run_id)

        return self._unless_changed(key, attempt)

    def release(self, name: str, run_id: str) -> None:
        """Release the claim and resume the visits that wait for it."""
        key = build_claim_key(name)

        def attempt(pipe: Any) -> bool:
            is_held = bool(pipe.get(key) == run_id)
            pipe.multi()
            if is_held:
                pipe.delete(key)
            return is_held

        if self._unless_changed(key, attempt):
            self._partitions.close_builds(name)

    def _unless_changed(self, key: str, attempt: Callable[[Any], bool]) -> bool:
        """Carry out what `attempt` decides, again if another run changes the claim meanwhile."""
        return bool(self._redis.transaction(attempt, key, value_from_callable=True))
