"""The queue in Redis as workers see it: its lanes, in order."""

from __future__ import annotations

from typing import Any

import redis

from sleipnir.scheduler.store.keys import LANES, QUEUE, TURN_MARK, lane_key, turns_key


def take(client: redis.Redis, queue: str = QUEUE, *, newest: bool = False) -> str | None:
    """Take the next message as a worker does, or the newest of its lane."""
    redis_: Any = client  # redis-py types every reply as a union of its sync and async forms
    for lane in range(LANES):
        key = lane_key(queue, lane)
        text: str | None = redis_.lpop(key) if newest else redis_.rpop(key)
        if text == TURN_MARK:
            ((text, _),) = redis_.zpopmin(turns_key(queue))
        if text is not None:
            return text
    return None


def waiting(client: redis.Redis, queue: str = QUEUE) -> list[str]:
    """Return the messages in the queue, in the order in which workers would take them."""
    redis_: Any = client
    texts: list[str] = []
    for lane in range(LANES - 1):
        texts += reversed(redis_.lrange(lane_key(queue, lane), 0, -1))
    last = reversed(redis_.lrange(lane_key(queue, LANES - 1), 0, -1))
    texts += [text for text in last if text != TURN_MARK]
    return texts + list(redis_.zrange(turns_key(queue), 0, -1))


def lose_all(client: redis.Redis, queue: str = QUEUE) -> None:
    """Empty the queue."""
    client.delete(turns_key(queue), *(lane_key(queue, lane) for lane in range(LANES)))
