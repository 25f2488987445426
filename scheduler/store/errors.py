"""Errors of Redis, re-exported for callers of the store, which alone imports redis."""

from redis.exceptions import ConnectionError, NoPermissionError, RedisError

__all__ = ["ConnectionError", "NoPermissionError", "RedisError"]
