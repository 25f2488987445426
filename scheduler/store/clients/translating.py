"""Redis clients that raise our errors, so that their users need not know redis-py's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.client import Pipeline
from redis.exceptions import NoScriptError, RedisError, WatchError

from sleipnir.scheduler.errors import EngineUnreachable
from sleipnir.scheduler.store.connection import describe


@contextmanager
def translating() -> Iterator[None]:
    """Translate errors of Redis into ours.

    Raises:
        EngineUnreachable: from the error of Redis.
    """
    try:
        yield
    except (NoScriptError, WatchError):  # handled by the store itself
        raise
    except RedisError as error:
        raise EngineUnreachable(describe(error)) from error


class TranslatingRedis(redis.Redis):
    """A client that raises `EngineUnreachable` for errors of Redis."""

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """As redis-py's."""
        with translating():
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """As redis-py's."""
        return _TranslatingPipeline(
            self.connection_pool, self.response_callbacks, transaction, shard_hint
        )


class _TranslatingPipeline(Pipeline):
    def execute(self, raise_on_error: bool = True) -> list[Any]:
        with translating():
            return super().execute(raise_on_error)
