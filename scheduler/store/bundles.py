"""Bundles: packed agents, kept as long as a run uses them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from redis.exceptions import WatchError

from sleipnir.scheduler.store.keys import ALL_PARTITIONS, BUNDLES, bundle_key
from sleipnir.scheduler.store.transitions import Transitions


class Bundles:
    """Packed agents by their digest."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def put(self, digest: str, data: bytes) -> None:
        """Keep a packed agent directory under its digest."""
        with self._store.client.pipeline(transaction=False) as pipe:
            pipe.zadd(BUNDLES, {digest: self._store.clock.now_ms()})
            pipe.set(bundle_key(digest), data, nx=True)
            pipe.execute()

    def get(self, digest: str) -> bytes | None:
        """A packed agent directory, as it was put."""
        get: Any = self._store.client.execute_command  # untyped in redis-py
        data = get("GET", bundle_key(digest), NEVER_DECODE=True)
        return None if data is None else bytes(data)

    def remove_unused(self, unused_for: timedelta, limit: int) -> int:
        """Remove up to `limit` bundles that no run uses; returns how many."""
        before = self._store.clock.now_ms() - unused_for.total_seconds() * 1000
        with self._store.client.pipeline() as pipe:
            # A bundle that is submitted again meanwhile is in use: then nothing is removed now.
            watch: Any = pipe.watch  # untyped in redis-py
            watch(BUNDLES)
            old = list(map(str, self._store.client.zrangebyscore(BUNDLES, "-inf", before)))
            used = self._used_bundles()
            unused = [digest for digest in old if digest not in used][:limit]
            pipe.multi()
            for digest in unused:
                pipe.delete(bundle_key(digest))
                pipe.zrem(BUNDLES, digest)
            try:
                pipe.execute()
            except WatchError:
                return 0
        return len(unused)

    def _used_bundles(self) -> set[str]:
        with self._store.client.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hkeys(f"{partition}:bundles")
            return set().union(*pipe.execute())
