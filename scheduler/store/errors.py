"""What Redis raises, for those who call the store: it alone imports redis."""

from redis.exceptions import ConnectionError, RedisError

__all__ = ["ConnectionError", "RedisError"]
