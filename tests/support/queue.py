"""The queue in Redis as workers see it: its lanes, in order."""

from __future__ import annotations

from typing import Any

import redis

from sleipnir.scheduler.store.cluster.groups import tags_of
from sleipnir.scheduler.store.keys import LANES, QUEUE, TURN_MARK, lane_key, turns_key


def take(client: redis.Redis, queue: str = QUEUE, *, newest: bool = False) -> str | None:
    """Take the next message as a worker does, or the newest of its lane."""
    redis_: Any = client  # redis-py types every reply as a union of its sync and async forms
    for lane in range(LANES):
        for base in _parts(client, queue):
            key = lane_key(base, lane)
            text: str | None = redis_.lpop(key) if newest else redis_.rpop(key)
            if text == TURN_MARK:
                # A message that was sent twice in one millisecond has two marks, and is one.
                text = next((text for text, _ in redis_.zpopmin(turns_key(base))), None)
            if text is not None:
                return text
    return None


def waiting(client: redis.Redis, queue: str = QUEUE) -> list[str]:
    """Return the messages in the queue, in the order in which workers would take them."""
    redis_: Any = client
    parts = _parts(client, queue)
    texts: list[str] = []
    for lane in range(LANES - 1):
        for base in parts:
            texts += reversed(redis_.lrange(lane_key(base, lane), 0, -1))
    for base in parts:
        last = reversed(redis_.lrange(lane_key(base, LANES - 1), 0, -1))
        texts += [text for text in last if text != TURN_MARK]
        texts += redis_.zrange(turns_key(base), 0, -1)
    return texts


def _parts(client: redis.Redis, queue: str) -> list[str]:
    """Return the queue's names: on a cluster, it is in a part for each group."""
    return [f"{tag}{queue}" for tag in tags_of(client)]


def lose_all(client: redis.Redis, queue: str = QUEUE) -> None:
    """Empty the queue."""
    for base in _parts(client, queue):
        client.delete(turns_key(base), *(lane_key(base, lane) for lane in range(LANES)))
