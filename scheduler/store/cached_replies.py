"""Replies of models that are kept for a while, by what was asked."""

from __future__ import annotations

from typing import Any

import redis

from sleipnir.scheduler.store.keys import cache_key


class CachedReplies:
    """Those that all workers on one Redis keep; each is a message as JSON text."""

    def __init__(self, client: redis.Redis) -> None:
        # redis-py types every answer as a union of its sync and async forms.
        self._redis: Any = client

    def find(self, digest: str) -> str | None:
        """Return the reply to a request of that digest."""
        message = self._redis.get(cache_key(digest))
        return None if message is None else str(message)

    def keep(self, digest: str, message: str, keep_s: float) -> None:
        """Keep a reply.

        Raises:
            RedisError: it cannot be kept.
        """
        self._redis.set(cache_key(digest), message, px=round(keep_s * 1000))
