"""Redis clients that raise our errors, so that their users need not know redis-py's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.client import Pipeline
from redis.exceptions import NoScriptError, RedisError, WatchError

from sleipnir.scheduler.errors import EngineUnreachable
from sleipnir.scheduler.store.cluster.client import ClusterClient, ClusterPipeline
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


def translating_client(client: redis.Redis) -> redis.Redis:
    """Return a client of the same connections that raises `EngineUnreachable` for its errors."""
    if isinstance(client, ClusterClient):
        return _TranslatingCluster(client.nodes, client.connection_pool, client.retry_policy)
    return _TranslatingRedis(connection_pool=client.connection_pool)


class _Commands(redis.Redis):
    def execute_command(self, *args: Any, **options: Any) -> Any:
        with translating():
            return super().execute_command(*args, **options)  # type: ignore[no-untyped-call]


class _Execution(Pipeline):
    def execute(self, raise_on_error: bool = True) -> list[Any]:
        with translating():
            return super().execute(raise_on_error)


class _TranslatingRedis(_Commands):
    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return _Execution(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class _TranslatingCluster(_Commands, ClusterClient):
    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return _TranslatingClusterPipeline(self, transaction)

    def in_slot(self, slot: int, func: Callable[[Any], Any], *watches: Any, **options: Any) -> Any:
        with translating():
            return super().in_slot(slot, func, *watches, **options)


class _TranslatingClusterPipeline(_Execution, ClusterPipeline):
    pass
