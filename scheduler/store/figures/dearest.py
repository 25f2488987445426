"""The dearest runs, as lua/lib/indexes.lua keeps some of each day and partition."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import redis

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.keys import dearest_key

# As in lua/lib/indexes.lua.
MOST_DEAREST = 20


def dearest_runs(client: redis.Redis, days: Sequence[int], most: int = MOST_DEAREST) -> list[str]:
    """Return the ids of the root runs that cost most of those that ended on some days (UTC).

    They may have been removed meanwhile. Up to `MOST_DEAREST` are exact.
    """
    pipe: Any = client.pipeline(transaction=False)  # redis-py types every answer as a union
    for day in days:
        for partition in ALL_PARTITIONS:
            pipe.zrevrange(dearest_key(partition, day), 0, most - 1, withscores=True)
    found = (entry for entries in pipe.execute() for entry in entries)
    return [run_id for run_id, _ in heapq.nlargest(most, found, key=lambda entry: entry[1])]
