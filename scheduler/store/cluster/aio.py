"""The client of a Redis Cluster on asyncio, for the commands and reads that programs need."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.client import Pipeline
from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AskError,
    ConnectionError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from sleipnir.scheduler.store.clients.transient import is_transient
from sleipnir.scheduler.store.cluster.answers import Answers, Queued
from sleipnir.scheduler.store.cluster.layout import grouped_command, ungrouped_reply
from sleipnir.scheduler.store.cluster.nodes import NOTHING, NodeRoute, Nodes, SlotMap
from sleipnir.scheduler.store.cluster.url import Address, ClusterUrl

T = TypeVar("T")


class _AsyncAnywhere:
    """A connection to whichever node can be reached: subscriptions outlive their node."""

    def __init__(self, *, nodes: Nodes, **options: Any) -> None:
        super().__init__(**options | {"host": "", "port": 0})
        self._nodes, self._tries = nodes, 0
        self.is_connected: bool

    async def connect_check_health(self, *arguments: Any, **options: Any) -> None:
        """Connect as redis-py does, to another node than before."""
        if not self.is_connected:
            known = self._nodes.to_ask()
            self.host, self.port = known[self._tries % len(known)]
            self._tries += 1
        await super().connect_check_health(*arguments, **options)  # type: ignore[misc]  # a mixin


class _AsyncPlainAnywhere(_AsyncAnywhere, Connection):
    pass


class _AsyncSecureAnywhere(_AsyncAnywhere, SSLConnection):
    pass


class AsyncClusterClient(Redis):
    """A client of all nodes of a cluster, which asks for them when it is first used.

    Args:
        url: a cluster URL.
        retry: how commands are retried while the cluster cannot serve them.
        options: of the connections, as redis-py names them.

    Raises:
        ValueError: the URL is not valid.
    """

    def __init__(self, url: str, *, retry: Retry, **options: Any) -> None:
        place = ClusterUrl.parse(url)
        options = {**options, **place.options()}
        options |= {"retry": Retry(NoBackoff(), 0), "retry_on_error": []}
        # That of the blocking client, if it is one over TLS.
        is_secure = options.pop("connection_class", None) is not None
        most = options.pop("max_connections", None)

        def make(address: Address) -> Redis:
            host, port = address
            kind = SSLConnection if is_secure else Connection
            pool = ConnectionPool(kind, most, host=host, port=port, **options)
            return Redis(connection_pool=pool)

        self.nodes = Nodes(place.seeds, make)
        anywhere = _AsyncSecureAnywhere if is_secure else _AsyncPlainAnywhere
        super().__init__(
            connection_pool=ConnectionPool(anywhere, most, nodes=self.nodes, **options)
        )
        self._retry = retry

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close all connections."""
        for client in (self, *self.nodes.all()):
            await client.connection_pool.disconnect()

    async def refresh(self) -> None:
        """Ask the nodes which of them serves which slots; the first answer counts.

        Raises:
            RedisError: none answers.
        """
        failure: Exception = ConnectionError("no node is known")
        for address in self.nodes.to_ask():
            try:
                reply = await self.nodes.at(address).execute_command("CLUSTER SLOTS")
                self.nodes.map = SlotMap.read(reply, address)
                return
            except (RedisError, OSError) as error:
                failure = error
        raise failure

    async def execute_command(self, *words: Any, **options: Any) -> Any:
        """Send a command to the node of its keys, which are in one slot."""
        named = grouped_command(words)
        return ungrouped_reply(named, await self.attempt(partial(self.send, named, options)))

    async def send(self, named: Sequence[Any], options: dict[str, Any]) -> Any:
        """Send a command, named as on the cluster, once; follow redirections."""
        route = NodeRoute(self.nodes, named)
        while True:
            try:
                if not route.is_asking:
                    return await route.node.execute_command(*named, **options)
                async with route.node.pipeline(transaction=False) as pipe:
                    pipe.execute_command("ASKING")
                    pipe.execute_command(*named, **options)
                    return (await pipe.execute())[1]
            except AskError as error:
                route.follow(error)

    async def attempt(self, do: Callable[[], Awaitable[T]]) -> T:
        """Carry out something that may be repeated, as often as this client retries."""

        async def with_nodes() -> T:
            if self.nodes.map is NOTHING:
                await self.refresh()
            return await do()

        return await self._retry.call_with_retry(with_nodes, self._after_failure, is_transient)

    async def _after_failure(self, _error: Exception) -> None:
        """Look for the nodes again, as one may have taken the place of another."""
        with suppress(RedisError, OSError):
            await self.refresh()

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """As redis-py's, without transactions."""
        if transaction:
            raise NotImplementedError("there are no transactions on asyncio")
        return AsyncClusterPipeline(self)


class AsyncClusterPipeline(Pipeline):
    """Commands for any nodes, sent at once."""

    def __init__(self, client: AsyncClusterClient) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, False, None)
        self._client = client

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """Queue a command."""
        self.command_stack.append((grouped_command(words), options))
        return self

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send all commands, and return their answers in order."""
        stack: Any = self.command_stack
        self.command_stack = []
        answers = Answers(stack, {})
        try:
            await self._client.attempt(partial(self._collect, stack, answers))
        except (ConnectionError, TimeoutError, ResponseError):
            if raise_on_error:
                raise
        found = answers.in_order()
        if raise_on_error:
            self.raise_first_error(stack, found)
        return found

    async def _collect(self, stack: Sequence[Queued], answers: Answers) -> None:
        """Send what has no answer yet to all nodes at once.

        Raises:
            RedisError: an answer that may be another one later; all answers are there.
        """

        async def ask(node: Any, places: Sequence[int]) -> None:
            async with node.pipeline(transaction=False) as pipe:
                for place in places:
                    words, options = stack[place]
                    pipe.execute_command(*words, **options)
                try:
                    found = await pipe.execute(raise_on_error=False)
                except (ConnectionError, TimeoutError) as error:
                    found = [error] * len(places)
            for place, answer in zip(places, found, strict=True):
                answers.put(place, answer)

        missing = answers.missing(self._client.nodes)
        await asyncio.gather(*(ask(node, places) for node, places in missing.items()))
        for place, words, options in answers.to_repeat():
            try:
                answers.put(place, await self._client.send(words, options))
            except RedisError as error:
                answers.put(place, error)
        answers.raise_transient()
