"""Takes messages from a cluster, whose queue is in 16 parts: one for each group of partitions.

A free thread first has all groups looked at, with one pipeline to each node, and then takes a
message from one that has some: from lanes 0 to 2 of any group before lane 3 of any. If there is
nothing anywhere, each group is waited for with a BRPOP. More of these may be answered than threads
are free; such a message goes back, to the front of its lane, in one round trip.

A node that cannot be reached, or does not answer, holds up nobody: connections are made on other
threads, and no answer is waited for.
"""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property, partial
from queue import Empty
from time import monotonic
from typing import Any

from kombu.transport import redis as kombu_redis
from redis.backoff import NoBackoff
from redis.client import PubSub
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from sleipnir.records import dataclass
from sleipnir.scheduler.store.cluster.client import ClusterClient
from sleipnir.scheduler.store.cluster.layout import TAGS
from sleipnir.scheduler.store.cluster.nodes import slot_of
from sleipnir.scheduler.store.connection import RETRY_BRIEFLY, client_options
from sleipnir.scheduler.store.keys import LANES, lane_key, turns_key
from sleipnir.worker.celery.broker import (
    FINAL_READ_S,
    TURN,
    Channel,
    Readers,
    Transport,
    next_by_turn,
    receiving,
)

logger = logging.getLogger("sleipnir.worker")

_LAST = LANES - 1  # the lane of batch runs that have not started
_WAIT_S = 1
# A node that has not answered a look by then is left out of the choice.
_LOOK_S = 0.05
# A connection on which nothing came for so long, although Redis should have answered, is closed.
_SILENCE_S = 6.0
_RECONNECT_S = 0.2
_CHECK_S = 0.5
_NEVER = Retry(NoBackoff(), 0)
_GONE = (RedisError, OSError)

# Connections are made here, so that one to a node that is away holds up no other.
_connectors = ThreadPoolExecutor(len(TAGS) + 4, thread_name_prefix="connect")


@dataclass(slots=True)
class _Asked:
    """What a connection is to answer."""

    since: float
    done: Callable[[Any], None]  # receives the replies, or an error
    replies: int = 1


class _Line:
    """A connection to a node that is only read when an answer has come.

    Args:
        node: returns the client of the node; raises RedisError if there is none now.
    """

    def __init__(self, client: ClusterClient, node: Callable[[], Any], hub: Any) -> None:
        self._client, self._node, self._hub = client, node, hub
        self._connection: Any = None
        self._made: Future[Any] | None = None
        self._not_before = 0.0
        self._fd = -1
        self.asked: _Asked | None = None

    @property
    def is_free(self) -> bool:
        """Whether a command can be sent now; if there is no connection, one is made."""
        if self.asked is not None:
            return False
        if self._connection is None:
            self._connect()
        return self._connection is not None

    def _connect(self) -> None:
        if self._made is None and monotonic() >= self._not_before:
            self._made = _connectors.submit(self._make)
            self._made.add_done_callback(lambda _: self._hub.call_soon(_nothing))
        elif self._made is not None and self._made.done():
            made, self._made = self._made, None
            if made.exception() is not None:
                self._not_before = monotonic() + _RECONNECT_S
                return
            self._connection = made.result()
            self._fd = self._connection._sock.fileno()
            self._hub.add_reader(self._fd, self._read)

    def _make(self) -> Any:
        try:
            made = self._node().connection_pool.make_connection()
            made.connect()
            return made
        except _GONE:
            self._client.refresh()
            raise

    def send(self, done: Callable[[Any], None], *commands: tuple[Any, ...]) -> None:
        """Send commands; `done` gets their answers, or an error."""
        self.asked = _Asked(monotonic(), done, len(commands))
        try:
            self._connection.send_packed_command(self._connection.pack_commands(commands))
        except _GONE as error:
            self._fail(error)

    def _read(self) -> None:
        with receiving:
            asked, found = self.asked, []
            try:
                for _ in range(1 if asked is None else asked.replies):
                    found.append(self._connection.read_response(disable_decoding=True))
            except _GONE as error:
                # Also a refusal: another node may serve the slot by now.
                self._fail(error)
                return
            self.asked = None
            if asked is not None:
                asked.done(found)

    def check(self) -> None:
        """Give up a connection that has been silent for too long."""
        if self.asked is not None and monotonic() - self.asked.since > _SILENCE_S:
            self._fail(TimeoutError("no answer"))

    def _fail(self, error: Exception) -> None:
        asked = self.asked
        self.close()
        self._not_before = monotonic() + _RECONNECT_S
        _connectors.submit(self._refresh)
        if asked is not None:
            asked.done(error)

    def _refresh(self) -> None:
        with suppress(*_GONE):
            self._client.refresh()

    def final_answer(self) -> Any:
        """Close our half of the connection, which ends a BRPOP, and return what came before."""
        with suppress(*_GONE, AttributeError):
            sock = self._connection._sock
            sock.settimeout(FINAL_READ_S)
            sock.shutdown(socket.SHUT_WR)
            return self._connection.read_response(disable_decoding=True)
        return None

    def close(self) -> None:
        """Close the connection; another one is made when it is needed."""
        self.asked, connection, self._connection = None, self._connection, None
        if connection is not None:
            with suppress(KeyError, ValueError, OSError):
                self._hub.remove_reader(self._fd)
            connection.disconnect()


class _Group:
    """The part of the queues that is in one group."""

    def __init__(self, tag: str, client: ClusterClient, hub: Any) -> None:
        self.tag, self.slot = tag, slot_of(tag)
        self.line = _Line(client, partial(client.nodes.of_slot, self.slot), hub)
        self.is_taking = False

    def lists(self, queues: list[str]) -> list[str]:
        """Return the lanes 0 to 2, in the order in which messages are taken from them."""
        return [lane_key(f"{self.tag}{queue}", lane) for lane in range(_LAST) for queue in queues]

    def starts(self, queues: list[str]) -> list[str]:
        """Return for each queue its last lane and its turns."""
        return [
            key
            for queue in queues
            for key in (lane_key(f"{self.tag}{queue}", _LAST), turns_key(f"{self.tag}{queue}"))
        ]


class Takers:
    """Takes messages for the free threads of a process, from all groups.

    Args:
        deliver: called with each message that is taken, and its list.
        free: returns how many messages may be taken now.
    """

    def __init__(
        self,
        client: ClusterClient,
        hub: Any,
        deliver: Callable[[str, bytes, bytes], None],
        free: Callable[[], int],
    ) -> None:
        self._client, self._hub = client, hub
        self._deliver, self._free = deliver, free
        self._groups = [_Group(tag, client, hub) for tag in TAGS]
        self._looks: dict[tuple[str, int], _Line] = {}  # by node
        self._queues: list[str] = []
        self._looking = 0  # nodes whose answer is awaited
        self._look_ends = 0.0
        self._urgent: list[_Group] = []
        self._starting: list[_Group] = []
        self._turn = 0
        self._round = 0
        self._check = hub.call_repeatedly(_CHECK_S, self._check_lines)

    # ---- one look after another

    def ask(self, queues: list[str]) -> None:
        """Look for messages, unless that is under way."""
        self._queues = queues
        if self._looking:
            if monotonic() >= self._look_ends:
                self._choose()
            return
        idle = [group for group in self._groups if group.line.is_free]
        if not idle or self._wanted() <= 0:
            return
        by_node: dict[tuple[str, int], list[_Group]] = {}
        for group in idle:
            with suppress(ResponseError):  # no node serves it now
                address = self._client.nodes.map.address_of(group.slot)
                by_node.setdefault(address, []).append(group)
        self._urgent, self._starting = [], []
        self._round += 1
        self._look_ends = monotonic() + _LOOK_S
        for address, groups in by_node.items():
            line = self._looks.get(address)
            if line is None:
                node = partial(self._client.nodes.at, address)
                line = self._looks[address] = _Line(self._client, node, self._hub)
            if line.is_free:
                self._looking += 1
                line.send(
                    partial(self._looked, self._round, groups),
                    *(("EXISTS", *group.lists(queues)) for group in groups),
                    *(("EXISTS", *group.starts(queues)) for group in groups),
                )
        if self._looking:
            self._hub.call_later(_LOOK_S, _nothing)

    def _looked(self, round_: int, groups: list[_Group], answers: Any) -> None:
        if round_ != self._round:  # it came too late
            return
        self._looking -= 1
        if isinstance(answers, list):
            pairs = zip(groups, answers, answers[len(groups) :], strict=False)
            for group, urgent, starting in pairs:
                if urgent:
                    self._urgent.append(group)
                elif starting:
                    self._starting.append(group)
        if self._looking == 0:
            self._choose()

    def _choose(self) -> None:
        """Take from groups that have messages; wait for all if there are none."""
        self._looking = 0
        self._round += 1
        found = [group for group in self._urgent or self._starting if group.line.is_free]
        if not found:
            for group in self._groups:
                if group.line.is_free:
                    self._wait(group)
            return
        self._turn += 1
        first = self._turn % len(found)
        for group in (found[first:] + found[:first])[: max(0, self._wanted())]:
            self._take(group)

    def _wanted(self) -> int:
        return self._free() - sum(group.is_taking for group in self._groups)

    # ---- one group

    def _take(self, group: _Group, *, has_mark: bool = False) -> None:
        lists, starts = group.lists(self._queues), group.starts(self._queues)
        group.is_taking = True
        group.line.send(
            partial(self._taken, group),
            next_by_turn(lists, starts, has_mark=has_mark),
        )

    def _taken(self, group: _Group, answers: Any) -> None:
        group.is_taking = False
        if isinstance(answers, list) and answers[0]:
            self._deliver(group.tag, *answers[0])
        self.ask(self._queues)

    def _wait(self, group: _Group) -> None:
        lists = (*group.lists(self._queues), *group.starts(self._queues)[::2])
        group.line.send(partial(self._waited, group), ("BRPOP", *lists, _WAIT_S))

    def _waited(self, group: _Group, answers: Any) -> None:
        if not isinstance(answers, list):
            return
        found = answers[0]
        if found and self._wanted() <= 0:
            group.line.send(_ignore, ("RPUSH", *found))
        elif found and found[1] == TURN:
            self._take(group, has_mark=True)
        elif found:
            self._deliver(group.tag, *found)
        if self._wanted() > 0 and group.line.is_free:
            self._wait(group)

    # ---- the end

    def _check_lines(self) -> None:
        for line in self._lines():
            line.check()

    def _lines(self) -> Iterator[_Line]:
        yield from (group.line for group in self._groups)
        yield from self._looks.values()

    def put_back(self) -> None:
        """Return the messages that are on their way to the lists they were taken from."""
        for group in self._groups:
            if group.line.asked is not None:
                found = group.line.final_answer()
                if isinstance(found, list) and len(found) == 2:
                    with suppress(*_GONE):
                        self._client.rpush(*found)

    def close(self) -> None:
        """Stop taking messages."""
        self._check.cancel()
        for line in self._lines():
            line.close()


class GroupsChannel(Channel):
    """Takes messages off the lists of all groups."""

    # Scripts of kombu change bindings together, so all of them are in one slot.
    keyprefix_queue = "_kombu.{_kombu}.binding.%s"
    keyprefix_binding_deadlines = "_kombu.{_kombu}.binding_deadlines"
    keyprefix_binding_permanent = "_kombu.{_kombu}.binding_permanent.%s"

    takers: Takers | None = None

    @cached_property
    def _cluster(self) -> ClusterClient:
        # As kombu names announcements; a cluster has one database.
        self.keyprefix_fanout = "/0."
        url = self.connection.client.transport_options["cluster_url"]
        options = client_options(url) | {"decode_responses": False}
        return ClusterClient.connect(url, retry=RETRY_BRIEFLY, **options)

    def _create_client(self, asynchronous: bool = False) -> Any:
        return self._cluster

    @cached_property
    def subclient(self) -> Any:
        """The subscription to announcements, at any node."""
        channel, pool = self, self._cluster.connection_pool
        kind: Any = pool.connection_class

        class Listening(kind):  # type: ignore[misc]  # as kombu does
            def disconnect(self, *arguments: Any, **options: Any) -> None:
                super().disconnect(*arguments, **options)
                channel._on_connection_disconnect(self)

        options = {**pool.connection_kwargs, "retry": _NEVER}  # kombu subscribes again itself
        made = type(pool)(connection_class=Listening, **options)
        return PubSub(made)

    def ask(self, hub: Any) -> None:
        """Look for messages."""
        with receiving:
            if self.are_stopped or self.are_paused:
                return
            if self.takers is None:
                self.takers = Takers(self._cluster, hub, self._deliver_of_group, self._free)
            self.takers.ask(self._queue_cycle.consume(len(self.active_queues)))

    def _free(self) -> int:
        # `can_consume` notes that a thread must wake the loop when it is free.
        if self.are_stopped or self.are_paused or not self.qos.can_consume():
            return 0
        most = self.qos.prefetch_count
        return most - self.qos.taken if most else len(TAGS)

    def _deliver_of_group(self, tag: str, key: bytes, text: bytes) -> None:
        """Deliver a message, and remember its group, to which it may have to return."""
        try:
            message = json.loads(text)
            message["group"] = tag
            queue = key.decode().rsplit(self.sep, 1)[0].removeprefix(tag)
            self.connection._deliver(message, queue)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            logger.warning("dropped an invalid message from the queue: %r", error)

    def _q_for_pri(self, queue: str, pri: int, tag: str = "") -> str:
        return str(super()._q_for_pri(tag + queue, pri))

    def _restore(self, message: Any, leftmost: bool = False) -> None:
        raw = dict(message._raw)
        tag, lane = raw.pop("group", ""), self._get_message_priority(raw, reverse=False)
        to = message.delivery_info
        for queue in self._lookup(to["exchange"], to["routing_key"]):
            self._cluster.rpush(self._q_for_pri(queue, lane, tag), json.dumps(raw))

    @property
    def is_asking(self) -> bool:
        """Whether messages may be on their way."""
        return self.takers is not None

    def put_back(self) -> None:
        """Return the messages that are on their way from Redis to their lists."""
        if self.takers is not None:
            self.takers.put_back()

    def close(self) -> None:
        """Close all connections."""
        with receiving:
            if self.takers is not None:
                self.takers.close()
            self.takers = None
        super().close()
        self._cluster.close()


class GroupsPoller(kombu_redis.MultiChannelPoller):  # type: ignore[misc]  # kombu publishes no types
    """kombu's poller, whose channels look for their messages themselves."""

    hub: Any = None

    def _register_BRPOP(self, channel: GroupsChannel) -> None:
        if self.hub is not None:
            channel.ask(self.hub)

    def get(self, callback: Any, timeout: float | None = None) -> Any:
        """Wait for a message without an event loop, as those do who ask workers something."""
        for channel in self._channels:
            for queue in channel.active_queues:
                with suppress(Empty):
                    channel.connection._deliver(channel._get(queue), queue)
                    return None
        return super().get(callback, min(timeout or _LOOK_S, _LOOK_S))


class GroupsTransport(Transport):
    """kombu's transport, for a cluster."""

    Channel = GroupsChannel

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.cycle = GroupsPoller()

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Register as kombu does."""
        self.cycle.hub = loop
        super().register_with_event_loop(connection, Readers(loop))


def _nothing() -> None:
    """Do nothing; calling it wakes the event loop."""


def _ignore(_answers: Any) -> None:
    """Ignore the answer to a returned message."""
