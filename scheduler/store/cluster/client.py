"""A client of a Redis Cluster, used like one of a single server.

Each command goes to the node that serves its key. Pipelines are sent to all their nodes at once,
and answered in order. A transaction is one for each slot: the store's have one slot, or need not be
atomic over several.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import product
from typing import Any, TypeVar, cast

import redis
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.connection import Connection, ConnectionPool, SSLConnection
from redis.exceptions import (
    AskError,
    ClusterDownError,
    ConnectionError,
    ExecAbortError,
    MovedError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)
from redis.retry import Retry

from sleipnir.scheduler.store.cluster.answers import Answers, Queued
from sleipnir.scheduler.store.cluster.layout import (
    grouped_command,
    grouped_patterns,
    ungrouped,
    ungrouped_reply,
)
from sleipnir.scheduler.store.cluster.nodes import (
    NodeRoute,
    Nodes,
    SlotMap,
    one_slot,
    slots_in,
)
from sleipnir.scheduler.store.cluster.url import Address, ClusterUrl

T = TypeVar("T")

# Commands on keys of several slots: how the answers of the parts are put together.
_SUMMED = frozenset({"DEL", "EXISTS", "TOUCH", "UNLINK"})
# Commands for every primary; the first answer counts.
_FOR_ALL = frozenset({"FLUSHALL", "FLUSHDB", "PING", "SCRIPT LOAD", "SCRIPT FLUSH"})
_CONNECT_S = 2.0


class _Anywhere:
    """A connection to whichever node can be reached: subscriptions outlive their node."""

    def __init__(self, *, nodes: Nodes, **options: Any) -> None:
        super().__init__(**options | {"host": "", "port": 0})
        self._nodes, self._tries = nodes, 0
        self._sock: Any

    def connect_check_health(self, *arguments: Any, **options: Any) -> None:
        """Connect as redis-py does, to another node than before."""
        if self._sock is None:
            known = self._nodes.to_ask()
            self.host, self.port = known[self._tries % len(known)]
            self._tries += 1
        super().connect_check_health(*arguments, **options)  # type: ignore[misc]  # a mixin


class _PlainAnywhere(_Anywhere, Connection):
    pass


class _SecureAnywhere(_Anywhere, SSLConnection):
    pass


class ClusterClient(redis.Redis):
    """A client of all nodes of a cluster.

    Args:
        anywhere: connections to any of the nodes.
        retry: how commands are retried while the cluster cannot serve them.
    """

    def __init__(self, nodes: Nodes, anywhere: ConnectionPool, retry: Retry) -> None:
        super().__init__(connection_pool=anywhere)
        self.nodes = nodes
        self.retry_policy = retry

    @classmethod
    def connect(cls, url: str, *, retry: Retry, **options: Any) -> ClusterClient:
        """Return a client of the cluster of a URL.

        Args:
            retry: as of the class.
            options: of the connections, as redis-py names them.

        Raises:
            ValueError: the URL is not valid.
            ConnectionError, ResponseError: no node of it answers, or none is in cluster mode.
        """
        place = ClusterUrl.parse(url)
        never = Retry(NoBackoff(), 0)
        options = {"socket_connect_timeout": _CONNECT_S, **options, **place.options()}
        options |= {"retry": never, "retry_on_error": []}
        kind = options.pop("connection_class", Connection)
        most = options.pop("max_connections", None)

        def make(address: Address) -> redis.Redis:
            host, port = address
            return _Node(
                connection_pool=ConnectionPool(
                    connection_class=kind, max_connections=most, host=host, port=port, **options
                )
            )

        nodes = Nodes(place.seeds, make)
        anywhere = _SecureAnywhere if issubclass(kind, SSLConnection) else _PlainAnywhere
        # Its connections are those of subscriptions, which retry by themselves.
        own = {"connection_class": anywhere, "max_connections": most, "retry": retry}
        pool = ConnectionPool(nodes=nodes, **{**options, **own})
        client = cls(nodes, pool, retry)
        client.refresh()
        return client

    # ---- the nodes

    def refresh(self) -> None:
        """Ask the nodes which of them serves which slots; the first answer counts.

        Raises:
            RedisError: none answers.
        """
        failure: Exception = ConnectionError("no node is known")
        for address in self.nodes.to_ask():
            try:
                reply: Any = self.nodes.at(address).execute_command("CLUSTER SLOTS")
                self.nodes.map = SlotMap.read(reply, address)
                return
            except (RedisError, OSError) as error:
                failure = error
        raise failure

    def set_retry(self, retry: Retry) -> None:
        """Retry otherwise from now on."""
        self.retry_policy = retry
        set_retry: Any = self.connection_pool.set_retry  # untyped in redis-py
        set_retry(retry)

    def close(self) -> None:
        """Close all connections."""
        for client in (self, *self.nodes.all()):
            client.connection_pool.disconnect()

    # ---- commands

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """Send a command to the node of its keys, as redis-py's; or to all nodes of its keys."""
        named = grouped_command(words)
        name = str(named[0]).upper()
        if name in _FOR_ALL:
            return self.attempt(partial(self._send_to_all, named, options))
        slots = slots_in(named)
        if len(slots) == 1:
            return ungrouped_reply(named, self.attempt(partial(self.send, named, options)))
        if name == "MGET":
            return self._get_many(named, slots, options)
        if name not in _SUMMED:
            raise ValueError(f"the keys of {name} are in several slots")
        parts = [(name, *(named[place] for place in places)) for places in slots.values()]
        return sum(self.attempt(partial(self.send, part, options)) for part in parts)

    def _get_many(
        self, named: Sequence[Any], slots: dict[int, list[int]], options: dict[str, Any]
    ) -> list[Any]:
        found: dict[int, Any] = {}
        for places in slots.values():
            part = ("MGET", *(named[place] for place in places))
            answers = self.attempt(partial(self.send, part, options))
            found |= zip(places, answers, strict=True)
        return [found[place] for place in sorted(found)]

    def _send_to_all(self, named: Sequence[Any], options: dict[str, Any]) -> Any:
        answers = [node.execute_command(*named, **options) for node in self.nodes.primaries()]
        if not answers:
            raise ClusterDownError("no node of the cluster serves any slot")
        return answers[0]

    def send(self, named: Sequence[Any], options: dict[str, Any]) -> Any:
        """Send a command, named as on the cluster, once; follow redirections."""
        route = NodeRoute(self.nodes, named)
        while True:
            try:
                if route.is_asking:
                    return _ask(route.node, named, options)
                return route.node.execute_command(*named, **options)
            except AskError as error:
                route.follow(error)

    def attempt(self, do: Callable[[], T]) -> T:
        """Carry out something that may be repeated, as often as this client retries."""
        return self.retry_policy.call_with_retry(do, self._after_failure)

    def _after_failure(self, _error: Exception) -> None:
        """Look for the nodes again, as one may have taken the place of another."""
        with suppress(RedisError, OSError):
            self.refresh()

    # ---- what redis-py makes of commands

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        """As redis-py's; a transaction is one for each slot."""
        return ClusterPipeline(self, transaction)

    def transaction(self, func: Callable[[Pipeline], Any], *watches: Any, **options: Any) -> Any:
        """As redis-py's, of keys in one slot; `func` gets a pipeline of the slot's node."""
        slot = one_slot(grouped_command(("WATCH", *watches)))
        return self.in_slot(slot, func, *watches, **options)

    def in_slot(self, slot: int, func: Callable[[Any], Any], *watches: Any, **options: Any) -> Any:
        """Carry out a transaction on keys of a slot, as `transaction`."""

        def attempt() -> Any:
            try:
                return self.nodes.of_slot(slot).transaction(func, *watches, **options)
            except MovedError as error:
                self.nodes.moved(slot, (error.host, error.port))
                raise TryAgainError(f"slot {slot} has moved") from error
            except AskError as error:
                raise TryAgainError(f"slot {slot} is being moved to another node") from error
            except ExecAbortError as error:
                self.refresh()
                raise TryAgainError(f"a transaction was refused: {error}") from error

        return self.attempt(attempt)

    def scan_iter(  # type: ignore[override]  # redis-py's has an async form in its type
        self, match: Any = None, count: int | None = None, **options: Any
    ) -> Iterator[Any]:
        """Yield the keys of all nodes, named as on a single server."""
        patterns = grouped_patterns(match) if isinstance(match, str) else (match,)
        for node, pattern in product(self.nodes.primaries(), patterns):
            yield from map(ungrouped, node.scan_iter(match=pattern, count=count, **options))


class _Node(redis.Redis):
    """A node, in whose pipelines keys are named as on a single server."""

    def pipeline(self, transaction: bool = True, shard_hint: str | None = None) -> Pipeline:
        return _NodePipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class _NodePipeline(Pipeline):
    def execute_command(self, *words: Any, **options: Any) -> Any:
        execute: Any = super().execute_command  # untyped in redis-py
        return execute(*grouped_command(words), **options)


class ClusterPipeline(Pipeline):
    """Commands for any nodes, sent at once."""

    def __init__(self, client: ClusterClient, transaction: bool) -> None:
        super().__init__(client.connection_pool, client.response_callbacks, transaction, None)
        self._client = client
        self._is_transaction = transaction

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """Queue a command."""
        self.command_stack.append((grouped_command(words), options))
        return self

    def watch(self, *names: Any) -> Any:
        """Refuse: use `transaction` of the client, which knows the node."""
        raise NotImplementedError("a pipeline of a cluster cannot watch; use `transaction`")

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Send all commands, and return their answers in order."""
        stack, self.command_stack = self.command_stack, []
        texts, self.scripts = {each.sha: each.script for each in self.scripts}, set()
        if self._is_transaction:
            return self._by_slot(stack)
        answers = Answers(stack, texts)
        try:
            self._client.attempt(partial(self._collect, stack, answers))
        except (ConnectionError, TimeoutError, ResponseError):
            if raise_on_error:
                raise
        found = answers.in_order()
        if raise_on_error:
            raise_first: Any = self.raise_first_error  # untyped in redis-py
            raise_first(stack, found)
        return found

    def _collect(self, stack: Sequence[Queued], answers: Answers) -> None:
        """Send what has no answer yet to all nodes at once.

        Raises:
            RedisError: an answer that may be another one later; all answers are there.
        """
        sent: list[tuple[Any, Connection, list[int]]] = []
        try:
            for node, places in answers.missing(self._client.nodes).items():
                try:
                    sent.append((node, _write(node, [stack[place][0] for place in places]), places))
                except (ConnectionError, TimeoutError) as error:
                    for place in places:
                        answers.put(place, error)
            while sent:
                for place, answer in _read(*sent[0], stack):
                    answers.put(place, answer)
                sent.pop(0)
        finally:
            for node, connection, _ in sent:  # their answers were not read
                _drop(node, connection)
        for place, words, options in answers.to_repeat():
            try:
                answers.put(place, self._client.send(words, options))
            except RedisError as error:
                answers.put(place, error)
        answers.raise_transient()

    def _by_slot(self, stack: Sequence[Queued]) -> list[Any]:
        """Carry out a transaction for each slot."""
        found: dict[int, Any] = {}
        by_slot: dict[int, list[int]] = {}
        for place, (words, _) in enumerate(stack):
            by_slot.setdefault(one_slot(words), []).append(place)
        for slot, places in by_slot.items():

            def queue(pipe: Any, places: Sequence[int] = places) -> None:
                for place in places:
                    words, options = stack[place]
                    pipe.execute_command(*words, **options)

            found |= zip(places, self._client.in_slot(slot, queue), strict=True)
        return [found[place] for place in range(len(stack))]


def _write(node: redis.Redis, commands: Sequence[Sequence[Any]]) -> Connection:
    """Send commands on a connection of a node, which is returned."""
    connection: Any = node.connection_pool.get_connection()
    try:
        connection.send_packed_command(connection.pack_commands(commands))
    except BaseException:
        _drop(node, connection)
        raise
    return cast("Connection", connection)


def _read(
    node: Any, connection: Any, places: Sequence[int], stack: Sequence[Queued]
) -> Iterator[tuple[int, Any]]:
    """Yield the answers to commands that were sent, by their places in a stack."""
    gone: Exception | None = None
    for place in places:
        words, options = stack[place]
        answer: Any = gone
        if gone is None:
            try:
                answer = node.parse_response(connection, words[0], **options)
            except ResponseError as error:
                answer = error
            except (ConnectionError, TimeoutError) as error:
                answer = gone = error
                connection.disconnect()
        yield place, answer
    node.connection_pool.release(connection)


def _drop(node: redis.Redis, connection: Any) -> None:
    connection.disconnect()
    node.connection_pool.release(connection)


def _ask(node: Any, words: Sequence[Any], options: dict[str, Any]) -> Any:
    """Send a command to the node that its slot is being moved to."""
    with node.pipeline(transaction=False) as pipe:
        pipe.execute_command("ASKING")
        pipe.execute_command(*words, **options)
        return pipe.execute()[1]
