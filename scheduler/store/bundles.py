"""Bundles: packed agents, kept as long as a run uses them."""

from __future__ import annotations

import json
from datetime import timedelta
from itertools import islice
from typing import Any

from sleipnir.scheduler.process.data_format import DATA_FORMAT
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.cluster.groups import groups_of, tag_for, tags_of
from sleipnir.scheduler.store.keys import BUNDLES, FORMAT, LAYOUT, bundle_key, run_key
from sleipnir.scheduler.store.transitions import Transitions

_AT_ONCE = 500  # records read in one round trip


class Bundles:
    """Packed agents by their digest."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def put(self, digest: str, data: bytes) -> None:
        """Store a packed agent directory under its digest.

        As that is the first that is stored of a run, the format of the data is recorded with it.
        """
        tags = tags_of(self._store.client)
        tag = tag_for(self._store.client, digest)
        with self._store.client.pipeline(transaction=False) as pipe:
            pipe.set(FORMAT, DATA_FORMAT)
            pipe.hsetnx(LAYOUT, "format", str(DATA_FORMAT))
            pipe.hsetnx(LAYOUT, "groups", str(len(tags)))
            pipe.zadd(f"{tag}{BUNDLES}", {digest: self._store.clock.now_ms()})
            pipe.set(f"{tag}{bundle_key(digest)}", data, nx=True)
            pipe.execute()

    def get(self, digest: str) -> bytes | None:
        """Return a packed agent directory as it was stored, or None."""
        get: Any = self._store.client.execute_command  # untyped in redis-py
        key = f"{tag_for(self._store.client, digest)}{bundle_key(digest)}"
        data = get("GET", key, NEVER_DECODE=True)
        return None if data is None else bytes(data)

    def remove_unused(self, unused_for: timedelta, limit: int) -> int:
        """Remove up to `limit` bundles that no run uses; return how many."""
        before = self._store.clock.now_ms() - unused_for.total_seconds() * 1000
        tags = tags_of(self._store.client)
        with self._store.client.pipeline(transaction=False) as pipe:
            for tag in tags:
                pipe.zrangebyscore(f"{tag}{BUNDLES}", "-inf", before, withscores=True)
            old = {digest: score for found in pipe.execute() for digest, score in found}
        unused = old.keys() - self._used_bundles()
        if unused:
            unused -= self._promised_bundles()
        remove, clock = self._store.transition("remove_bundle"), self._store.clock.argument()
        partitions = groups_of(self._store.client)
        removed = 0
        for digest in islice(unused, limit):
            partition, *_ = partitions[tag_for(self._store.client, digest)]
            removed += remove(partition, digest, int(old[digest]), clock=clock).removed
        return removed

    def _promised_bundles(self) -> set[str]:
        """Return the bundles of agents that open runs may still start."""
        found: set[str] = set()
        redis: Any = self._store.client  # redis-py types every answer as sync or async
        for partition in ALL_PARTITIONS:
            run_ids = redis.zrange(f"{partition}:open", 0, -1)
            for first in range(0, len(run_ids), _AT_ONCE):
                with redis.pipeline(transaction=False) as pipe:
                    for run_id in run_ids[first : first + _AT_ONCE]:
                        pipe.hget(run_key("run", run_id), "context")
                    for text in pipe.execute():
                        found.update(json.loads(text or "{}").get("agents", {}).values())
        return found

    def _used_bundles(self) -> set[str]:
        with self._store.client.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hkeys(f"{partition}:bundles")
            return set().union(*pipe.execute())
