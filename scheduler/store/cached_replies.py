"""The cache of model replies, by request."""

from __future__ import annotations

from typing import Any

import redis

from sleipnir.scheduler.store.keys import cache_key


class CachedReplies:
    """The reply cache shared by all workers of one Redis; each reply is a message as JSON text."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def find(self, digest: str) -> str | None:
        """Return the cached reply to the request with this digest, or None."""
        message = self._redis.get(cache_key(digest))
        return None if message is None else str(message)

    def keep(self, digest: str, message: str, keep_s: float) -> None:
        """Cache a reply for `keep_s`.

        Raises:
            RedisError: Redis cannot store it.
        """
        self._redis.set(cache_key(digest), message, px=round(keep_s * 1000))
