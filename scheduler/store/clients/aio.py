"""The store on asyncio: the same reads and transitions, carried out by `redis.asyncio`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

from redis.asyncio import Redis, Sentinel
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff, NoBackoff
from redis.exceptions import ConnectionError, NoScriptError

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.store.clients.translating import translating
from sleipnir.scheduler.store.cluster.url import is_cluster
from sleipnir.scheduler.store.connection import SOCKET_TIMEOUT_S, client_options, sentinel_url
from sleipnir.scheduler.store.queries.reads import Reads, carry_out_async
from sleipnir.scheduler.store.scripts import Contract
from sleipnir.scheduler.store.sentinels import is_sentinel
from sleipnir.scheduler.store.transitions import Transitions

# Most engines have a single server.
with lazy_imports():
    from sleipnir.scheduler.store.cluster import aio as cluster

if TYPE_CHECKING:
    from sleipnir.scheduler.store.archive.archived_runs import ArchivedRuns

T = TypeVar("T")

# Connections for commands that answer at once, and for blocking reads.
_COMMANDS = 32
_WAITING = 256
# Runs per round trip.
_AT_ONCE = 100


class AsyncStore:
    """The store's operations for `AsyncClient`.

    Args:
        store: the store of the same Redis; prepares the arguments of transitions.
        archived: has what the archive has of its runs.
    """

    def __init__(
        self, store: Transitions, redis_url: str, archived: ArchivedRuns | None = None
    ) -> None:
        self._store = store
        self._archived = archived
        # redis-py types answers as sync and async at once. `_others` are the sentinels' clients.
        self._redis: Any
        self._redis, self._others = connect_async(redis_url)
        self._contracts: dict[str, Contract] = {}
        self._commands = asyncio.Semaphore(_COMMANDS)
        self._waiting = asyncio.Semaphore(_WAITING)
        self._waiters = 0

    async def close(self) -> None:
        """Close all connections."""
        for client in (self._redis, *self._others):
            await client.aclose()

    async def read(self, reads: Reads[T]) -> T:
        """Carry out a read and return its result.

        Raises:
            EngineUnreachable: Redis does not answer.
        """
        async with self._commands:
            with translating():
                return await carry_out_async(self._redis, reads, self._archived)

    async def look(self, reads: Reads[T]) -> T:
        """Carry out a read that may block; beyond `_WAITING` at a time they queue up."""
        self._waiters += 1
        try:
            async with self._waiting:
                with translating():
                    return await carry_out_async(self._redis, reads, self._archived)
        finally:
            self._waiters -= 1

    @property
    def crowd(self) -> float:
        """Return the number of blocking reads per available slot; up to 1 none has to queue."""
        return self._waiters / _WAITING

    async def call(self, name: str, run_id: str, *arguments: bytes | str | int) -> Any:
        """Carry out one transition of a run, as `Transitions.call`."""
        (answer,) = await self.call_many(name, [(run_id, *arguments)])
        return answer

    async def call_many(self, name: str, calls: Sequence[Sequence[bytes | str | int]]) -> list[Any]:
        """Carry out a transition of several runs, each given its id and arguments.

        Raises:
            TransitionRefused, TransitionBroken: the first failure; others may have succeeded.
            EngineUnreachable: Redis does not answer.
        """
        contract = self._contract(name)
        answers: list[Any] = []
        for first in range(0, len(calls), _AT_ONCE):
            chunk = calls[first : first + _AT_ONCE]
            async with self._commands:
                with translating():
                    answers += await self._execute(contract, chunk)
        return [await self._result(contract, answer) for answer in answers]

    async def _execute(
        self, contract: Contract, calls: Sequence[Sequence[bytes | str | int]]
    ) -> list[Any]:
        clock = self._store.clock.argument()
        texts = [(1, partition_of(str(call[0])), *contract.encoded(call, clock)) for call in calls]
        async with self._redis.pipeline(transaction=False) as pipe:
            for text in texts:
                pipe.evalsha(contract.sha, *text)
            answers = await pipe.execute(raise_on_error=False)
        for place, answer in enumerate(answers):
            if isinstance(answer, NoScriptError):  # not loaded yet, or Redis has restarted
                answers[place] = await self._redis.eval(contract.text, *texts[place])
            elif isinstance(answer, Exception):
                raise answer
        return list(answers)

    async def _result(self, contract: Contract, answer: Any) -> Any:
        if len(answer) > 1 and answer[0] == "OK" and answer[1]:
            # It publishes to another broker, which blocks.
            return await asyncio.to_thread(contract.result, answer)
        return contract.result(answer)

    def _contract(self, name: str) -> Contract:
        found = self._contracts.get(name)
        if found is None:
            found = Contract(name, self._store.constants, self._store.published)
            self._contracts[name] = found
        return found


def connect_async(url: str) -> tuple[Redis, Sequence[Any]]:
    """Return a client that connects on first use, and the clients of its sentinels, if any."""
    retry = Retry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), 2, (ConnectionError,))
    # A busy event loop delays the connection, which does not mean that Redis is down.
    options = client_options(url) | {"retry": retry, "socket_connect_timeout": SOCKET_TIMEOUT_S}
    if is_cluster(url):
        return cluster.AsyncClusterClient(url, **options), ()
    if not is_sentinel(url):
        return Redis.from_url(url, **options), ()
    place, make_sentinel = sentinel_url(url), cast("Any", Sentinel)  # untyped in redis-py
    asking = place.sentinel_options | {"retry": Retry(NoBackoff(), 0)}
    sentinels = make_sentinel(list(place.addresses), sentinel_kwargs=asking)
    client: Redis = sentinels.master_for(
        place.service,
        db=place.db,
        username=place.username,
        password=place.password,
        ssl=place.tls is not None,
        **(place.tls or {}),
        **options,
    )
    return client, sentinels.sentinels
