"""A client of a Redis Cluster, used like one of a single server.

Each command goes to the node that serves its key. Pipelines are sent to all their nodes at once,
and answered in order. A transaction is one for each slot: the store's have one slot, or need not be
atomic over several.

A slot that is being moved refuses scripts until it has arrived (`ASK` is followed for other
commands only): meanwhile, some keys of a run are here and some there, and a script that ran at
either place would take those that it does not see for missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
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
    NoScriptError,
    RedisError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)
from redis.retry import Retry

from sleipnir.scheduler.store.clients.transient import is_transient
from sleipnir.scheduler.store.cluster.layout import (
    grouped_command,
    grouped_pattern,
    ungrouped,
)
from sleipnir.scheduler.store.cluster.nodes import (
    REDIRECTIONS,
    Nodes,
    SlotMap,
    one_slot,
    slots_in,
)
from sleipnir.scheduler.store.cluster.url import Address, ClusterUrl

T = TypeVar("T")
_Queued = tuple[Sequence[Any], dict[str, Any]]  # a command and redis-py's options

# Commands on keys of several slots: how the answers of the parts are put together.
_SUMMED = frozenset({"DEL", "EXISTS", "TOUCH", "UNLINK"})
# Commands for every primary; the first answer counts.
_FOR_ALL = frozenset({"FLUSHALL", "FLUSHDB", "SCRIPT LOAD", "SCRIPT FLUSH"})
_SCRIPTS = frozenset({"EVAL", "EVALSHA"})
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
        url: a cluster URL.
        retry: how commands are retried while the cluster cannot serve them.
        options: of the connections, as redis-py names them.

    Raises:
        ValueError: the URL is not valid.
        ConnectionError, ResponseError: no node of it answers, or none is in cluster mode.
    """

    def __init__(self, url: str, *, retry: Retry, **options: Any) -> None:
        place = ClusterUrl.parse(url)
        never = Retry(NoBackoff(), 0)
        options = {"socket_connect_timeout": _CONNECT_S, **options, **place.options()}
        options |= {"retry": never, "retry_on_error": []}
        kind = options.pop("connection_class", Connection)
        most = options.pop("max_connections", None)

        def make(address: Address) -> redis.Redis:
            host, port = address
            return redis.Redis(
                connection_pool=ConnectionPool(
                    connection_class=kind, max_connections=most, host=host, port=port, **options
                )
            )

        self.nodes = Nodes(place.seeds, make)
        anywhere = _SecureAnywhere if issubclass(kind, SSLConnection) else _PlainAnywhere
        super().__init__(
            connection_pool=ConnectionPool(
                connection_class=anywhere, max_connections=most, nodes=self.nodes, **options
            )
        )
        self._retry = retry
        self.refresh()

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
        self._retry = retry

    def close(self) -> None:
        """Close all connections."""
        super().close()
        for node in self.nodes.all():
            node.connection_pool.disconnect()

    # ---- commands

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """Send a command to the node of its keys, as redis-py's; or to all nodes of its keys."""
        named = grouped_command(words)
        name = str(named[0]).upper()
        if name in _FOR_ALL:
            return self.attempt(partial(self._send_to_all, named, options))
        slots = slots_in(named)
        if len(slots) == 1:
            return _ungrouped_reply(name, self.attempt(partial(self.send, named, options)))
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
        first, *_ = [node.execute_command(*named, **options) for node in self.nodes.primaries()]
        return first

    def send(self, named: Sequence[Any], options: dict[str, Any]) -> Any:
        """Send a command, named as on the cluster, once; follow redirections."""
        slot = one_slot(named)
        asked: Any = None
        for _ in range(REDIRECTIONS):
            node, is_asking = asked or self.nodes.of_slot(slot), asked is not None
            asked = None
            try:
                if is_asking:
                    return _ask(node, named, options)
                return node.execute_command(*named, **options)
            except AskError as error:
                if str(named[0]).upper() in _SCRIPTS:
                    raise TryAgainError(f"slot {slot} is being moved to another node") from error
                asked = self.nodes.at((error.host, error.port))
            except MovedError as error:
                self.nodes.moved(slot, (error.host, error.port))
        raise TryAgainError(f"the nodes do not agree on who serves slot {slot}")

    def attempt(self, do: Callable[[], T]) -> T:
        """Carry out something that may be repeated, as often as this client retries."""
        return self._retry.call_with_retry(do, self._after_failure)

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
        named = grouped_command(("WATCH", *watches))
        return self.in_slot(one_slot(named), func, *named[1:], **options)

    def in_slot(self, slot: int, func: Callable[[Any], Any], *watches: Any, **options: Any) -> Any:
        """Carry out a transaction, in which keys are named as on the cluster, as `transaction`."""

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
        pattern = grouped_pattern(match) if isinstance(match, str) else match
        for node in self.nodes.primaries():
            yield from map(ungrouped, node.scan_iter(match=pattern, count=count, **options))


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
        answers = _Answers(self._client, stack, texts)
        try:
            self._client.attempt(answers.collect)
        except (ConnectionError, TimeoutError, ResponseError):
            if raise_on_error:
                raise
        found = [answers.found[place] for place in range(len(stack))]
        if raise_on_error:
            raise_first: Any = self.raise_first_error  # untyped in redis-py
            raise_first(stack, found)
        return found

    def _by_slot(self, stack: Sequence[_Queued]) -> list[Any]:
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


class _Answers:
    """The answers to the commands of a pipeline, as far as they have come.

    Args:
        texts: the scripts that the commands call, by their digests.
    """

    def __init__(
        self, client: ClusterClient, stack: Sequence[_Queued], texts: Mapping[str, Any]
    ) -> None:
        self._client, self._stack, self._texts = client, stack, texts
        self.found: dict[int, Any] = {}

    def collect(self) -> None:
        """Send what has no answer yet.

        Raises:
            RedisError: some nodes could not be reached, or refused commands for now; these errors
                are the answers to such commands, and all other answers are there.
        """
        sent: list[tuple[Any, Connection, list[int]]] = []
        try:
            for node, places in self._by_node().items():
                connection = self._write(node, places)
                if connection is not None:
                    sent.append((node, connection, places))
            while sent:
                self._read(*sent[0])
                sent.pop(0)
        finally:
            for node, connection, _ in sent:  # their answers were not read
                _drop(node, connection)
        for place, answer in self.found.items():
            if isinstance(answer, (AskError, MovedError, NoScriptError)):
                self.found[place] = self._redirected(place, answer)
        for answer in self.found.values():
            if isinstance(answer, Exception) and is_transient(answer):
                raise answer

    def _by_node(self) -> dict[Any, list[int]]:
        found: dict[Any, list[int]] = {}
        for place, (words, _) in enumerate(self._stack):
            before = self.found.get(place)
            if place in self.found and not (isinstance(before, Exception) and is_transient(before)):
                continue
            try:
                node = self._client.nodes.of_slot(one_slot(words))
            except ClusterDownError as error:
                self.found[place] = error
            else:
                found.setdefault(node, []).append(place)
        return found

    def _write(self, node: redis.Redis, places: Sequence[int]) -> Connection | None:
        connection: Any = None
        try:
            connection = node.connection_pool.get_connection()
            words = [self._stack[place][0] for place in places]
            connection.send_packed_command(connection.pack_commands(words))
        except (ConnectionError, TimeoutError) as error:
            self.found |= dict.fromkeys(places, error)
            if connection is not None:
                _drop(node, connection)
            return None
        return cast("Connection", connection)

    def _read(self, node: Any, connection: Any, places: Sequence[int]) -> None:
        for index, place in enumerate(places):
            words, options = self._stack[place]
            try:
                self.found[place] = node.parse_response(connection, words[0], **options)
            except ResponseError as error:
                self.found[place] = error
            except (ConnectionError, TimeoutError) as error:
                self.found |= dict.fromkeys(places[index:], error)
                connection.disconnect()
                break
        node.connection_pool.release(connection)

    def _redirected(self, place: int, error: Exception) -> Any:
        """Send a command again, alone."""
        words, options = self._stack[place]
        if isinstance(error, NoScriptError):
            if words[1] not in self._texts:
                return error
            words = ("EVAL", self._texts[words[1]], *words[2:])
        try:
            return self._client.send(words, options)
        except RedisError as again:
            return again


def _drop(node: redis.Redis, connection: Any) -> None:
    connection.disconnect()
    node.connection_pool.release(connection)


def _ask(node: Any, words: Sequence[Any], options: dict[str, Any]) -> Any:
    """Send a command to the node that its slot is being moved to."""
    with node.pipeline(transaction=False) as pipe:
        pipe.execute_command("ASKING")
        pipe.execute_command(*words, **options)
        return pipe.execute()[1]


def _ungrouped_reply(name: str, reply: Any) -> Any:
    """Return a reply that contains keys with their names on a single server."""
    if name in ("XREAD", "XREADGROUP") and reply:
        return [[ungrouped(key), *rest] for key, *rest in reply]
    return reply
