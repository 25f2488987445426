"""The worker's broker connection: reconnects quickly, and survives any message."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from queue import Empty
from time import monotonic
from typing import Any, ClassVar
from weakref import WeakSet

from celery.app.amqp import AMQP
from kombu import Connection
from kombu.transport import TRANSPORT_ALIASES, redis, virtual
from redis.exceptions import ResponseError

from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.store.clients.transient import is_transient
from sleipnir.scheduler.store.connection import masked
from sleipnir.scheduler.store.keys import LANES, TURN_MARK, queue_name, turns_key

logger = logging.getLogger("sleipnir.worker")

TURN = TURN_MARK.encode()
_LAST = LANES - 1  # the lane of the marks of batches' runs
# KEYS: the lists in order; then for each queue its last lane and its sorted set of turns. ARGV: the
# number of lists; the text of a mark; 1 if the caller has taken one, else 0.
NEXT_BY_TURN = """
local lists = tonumber(ARGV[1])
local function return_mark()
  for i = lists + 1, #KEYS, 2 do
    if redis.call('LLEN', KEYS[i]) < redis.call('ZCARD', KEYS[i + 1]) then
      redis.call('LPUSH', KEYS[i], ARGV[2])
    end
  end
end
for i = 1, lists do
  local text = redis.call('RPOP', KEYS[i])
  if text then
    if ARGV[3] == '1' then return_mark() end  -- for those that wait for one
    return {KEYS[i], text}
  end
end
for i = lists + 1, #KEYS, 2 do
  local first = redis.call('LINDEX', KEYS[i], -1)
  if first and first ~= ARGV[2] then return {KEYS[i], redis.call('RPOP', KEYS[i])} end
  local text = redis.call('ZPOPMIN', KEYS[i + 1])[1]
  -- The mark of the first one was taken by BRPOP.
  if redis.call('LLEN', KEYS[i]) > redis.call('ZCARD', KEYS[i + 1]) then
    redis.call('RPOP', KEYS[i])
  end
  if text then return {KEYS[i], text} end
end
return false
"""
_WHILE_REFUSED_S = 1.0
# Celery's pauses between attempts grow to half a minute, and runs would wait as long for workers
# after an outage.
_RECONNECT_S = 2.0
FINAL_READ_S = 1.0
# Held while a message is asked for, and while it is read.
receiving = threading.RLock()


def next_by_turn(
    lists: Sequence[str], turns: Sequence[str], *, has_mark: bool
) -> tuple[str | bytes | int, ...]:
    """Return the command that takes the next message in the order of turns.

    Args:
        lists, turns: its keys, as above.
        has_mark: whether the caller has taken one.
    """
    keys = (*lists, *turns)
    return ("EVAL", NEXT_BY_TURN, len(keys), *keys, len(lists), TURN, int(has_mark))


class QueueOrder:
    """The queues of a channel in the order in which they are looked at (kombu's cycle).

    That is the order of their names; for each of them, the queue of all workers and that of runs
    pinned to this machine take turns.
    """

    def __init__(self) -> None:
        self.items: list[str] = []

    def update(self, queues: Iterable[str]) -> None:
        """Set the queues, those of a name one after the other."""
        self.items = list(queues)

    def consume(self, count: int) -> list[str]:
        """Return the first queues."""
        return self.items[:count]

    def rotate(self, last_used: str) -> None:
        """Put a queue behind the other one of its name."""
        places = [
            place
            for place, queue in enumerate(self.items)
            if queue_name(queue) == queue_name(last_used)
        ]
        if places:
            others = [self.items[place] for place in places if self.items[place] != last_used]
            self.items[places[0] : places[-1] + 1] = [*others, last_used]

    def in_turn(self, turn: int) -> list[str]:
        """Return the queues as they are looked at in the n-th turn of somebody else."""
        found = list[str]()
        for _, named in groupby(self.items, queue_name):
            queues = sorted(named)
            first = turn % len(queues)
            found += queues[first:] + queues[:first]
        return found


class Credit(virtual.QoS):  # type: ignore[misc]  # kombu publishes no types
    """Counts how many more messages may be taken; any thread may return one.

    Celery leaves that to the event loop, at the price of another iteration of it per message.
    """

    exhausted = False  # set when the loop takes no messages until it is woken

    def can_consume(self) -> bool:
        """Return whether another message may be taken."""
        if super().can_consume():
            return True
        self.exhausted = True
        # Check again: a thread that returned one just before did not see `exhausted`.
        return bool(super().can_consume())

    @property
    def taken(self) -> int:
        """The number of messages that are being worked on."""
        return len(self._delivered) - len(self._dirty)

    def return_credit(self, tag: str) -> bool:
        """Return the credit of a finished message; return whether the loop must be woken."""
        self.ack(tag)
        if not self.exhausted:
            return False
        self.exhausted = False
        return True


class Channel(redis.Channel):  # type: ignore[misc]  # kombu publishes no types
    """Takes messages off the lists, and drops unreadable ones, which would end the worker."""

    # Messages need not be restored when the connection is lost: visits have timers.
    do_restore = False
    # Whether a run of a batch came last: only the script can take these in order, and only BRPOP
    # can wait.
    _by_turn = False
    _has_mark = False  # it was taken by BRPOP

    # Of this process; they ask for no more messages once it is to stop.
    opened: ClassVar[WeakSet[Channel]] = WeakSet()
    are_stopped = False
    are_paused = False  # for now

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.QoS = Credit
        self._queue_cycle = QueueOrder()
        self.opened.add(self)

    def in_turn(self, turn: int) -> list[str]:
        """Return its queues for a thread that takes its next message itself."""
        return self._queue_cycle.in_turn(turn)

    def _restore(self, message: Any, leftmost: bool = False) -> None:
        """Put back, first in line, a message that arrived after this worker had stopped consuming.

        kombu's own method would write its body as bytes, which no worker can read.
        """
        lane = self._get_message_priority(message._raw, reverse=False)
        to = message.delivery_info
        with self.conn_or_acquire() as client:
            for queue in self._lookup(to["exchange"], to["routing_key"]):
                client.rpush(self._q_for_pri(queue, lane), json.dumps(message._raw))

    def _brpop_start(self, timeout: int | None = None) -> None:
        """Ask for a message, as kombu does or in the order of turns."""
        with receiving:
            if not (self.are_stopped or self.are_paused):
                self._ask(timeout)

    def _ask(self, timeout: int | None) -> None:
        if not self._by_turn:
            super()._brpop_start(timeout)
            return
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        lists = [self._q_for_pri(queue, lane) for lane in range(_LAST) for queue in queues]
        turns = [
            key for queue in queues for key in (self._q_for_pri(queue, _LAST), turns_key(queue))
        ]
        self._in_poll = self.client.connection
        self._brpop_sent_at = monotonic()
        self.client.connection.send_command(
            *next_by_turn(lists, turns, has_mark=self._has_mark),
        )
        self._has_mark = False

    def _brpop_read(self, **options: Any) -> Any:
        with receiving:
            if self.are_stopped:
                raise Empty
            return self._take_message(**options)

    @property
    def is_asking(self) -> bool:
        """Whether a message may be on its way."""
        return bool(self._in_poll)

    def put_back(self) -> None:
        """Return a message that is on its way from Redis to the list it was taken from.

        Closing our half of the connection ends a BRPOP that still waits.
        """
        asked, self._in_poll = self._in_poll, None
        with suppress(*self.connection_errors, OSError, AttributeError):
            asked._sock.settimeout(FINAL_READ_S)
            asked._sock.shutdown(socket.SHUT_WR)
            found = self.client.parse_response(asked, "EVAL" if self._by_turn else "BRPOP")
            if found:
                with self.conn_or_acquire() as client:
                    client.rpush(*found)

    def _take_message(self, **options: Any) -> Any:
        try:
            return self._read(**options)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            logger.warning("dropped an invalid message from the queue: %r", error)
            raise Empty from error
        except ResponseError as error:
            if not is_transient(error):
                raise
            # Otherwise Celery would end the worker. Redis refuses commands temporarily when its
            # disk is full, or when it is no longer the primary.
            logger.warning("cannot receive messages: %s", error)
            pause(_WHILE_REFUSED_S)
            raise Empty from error
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()

    def _read(self, **options: Any) -> bool:
        """Read like kombu's `_brpop_read`, for both ways of asking."""
        connection = self.client.connection
        try:
            command = "EVAL" if self._by_turn else "BRPOP"
            found = self.client.parse_response(connection, command, **options)
        except self.connection_errors:
            connection.disconnect()
            raise
        if not found or found[1] == TURN:
            # Each way takes one round trip per message, except when switching from one to the
            # other.
            self._by_turn = self._has_mark = bool(found)
            raise Empty
        queue = found[0].decode().rsplit(self.sep, 1)[0]
        self._queue_cycle.rotate(queue)
        self.connection._deliver(json.loads(found[1]), queue)
        return True


def stop_receiving() -> None:
    """Have this process ask for no more messages; what is on its way goes back to its queue.

    Otherwise a worker that exits takes along what Redis has sent it last.
    """
    with receiving:
        Channel.are_stopped = True
        for channel in list(Channel.opened):
            if channel.is_asking:
                channel.put_back()


def pause_receiving(is_paused: bool) -> None:
    """Have this process ask for no more messages for now, or ask again.

    It deals with a message that is on its way, which takes a second at most to arrive.
    """
    with receiving:
        Channel.are_paused = is_paused


def in_hand() -> int:
    """Return how many messages this process has received and not dealt with."""
    return sum(channel.qos.taken for channel in list(Channel.opened))


class Readers:
    """An event loop that ignores readers it has already."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def add_reader(self, fd: int, callback: Any, *arguments: Any) -> None:
        """Add a reader unless it is registered already."""
        if self._loop.readers.get(fd) != (callback, arguments):
            self._loop.add_reader(fd, callback, *arguments)


class Transport(redis.Transport):  # type: ignore[misc]  # kombu publishes no types
    """kombu's transport, with our channel."""

    Channel = Channel

    def register_with_event_loop(self, connection: Any, loop: Any) -> None:
        """Register as kombu does, but do not re-register the same readers in every iteration."""
        super().register_with_event_loop(connection, Readers(loop))


class SentinelChannel(Channel, redis.SentinelChannel):  # type: ignore[misc]  # as above
    """The same, for a primary named by sentinels."""


class SentinelTransport(Transport, redis.SentinelTransport):  # type: ignore[misc]  # as above
    """kombu's Sentinel transport, with our channel."""

    Channel = SentinelChannel


class EagerConnection(Connection):  # type: ignore[misc]  # kombu publishes no types
    """A connection that retries soon, however long the broker has been away."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # Celery passes on options of the transport only.
        self.credential_provider = self.transport_options.get("credential_provider")

    def ensure_connection(self, *arguments: Any, **options: Any) -> Any:
        """Connect as kombu does, with a limit on its pauses."""
        return super().ensure_connection(*arguments, **{"interval_max": _RECONNECT_S, **options})

    def info(self) -> dict[str, Any]:
        """Return what Flower shows, without the passwords that Celery leaves in.

        One is part of a socket's address; those of Sentinel are in the options for its sentinels.
        """
        found = super().info()
        options = {
            name: value
            for name, value in found["transport_options"].items()
            if name not in ("cluster_url", "credential_provider", "sentinel_kwargs")
        }
        alternates = [masked(url) for url in found["alternates"]]
        return {
            **found,
            "credential_provider": None,
            "hostname": masked(found["hostname"] or ""),
            "transport_options": options,
            "alternates": alternates,
        }


class EagerAMQP(AMQP):  # type: ignore[misc]  # Celery publishes no types
    """Celery's AMQP, with our connections."""

    Connection = EagerConnection


def use_tolerant_transport() -> None:
    """Make kombu resolve Redis URLs to this transport, in this process."""
    TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = f"{__name__}:Transport"
    TRANSPORT_ALIASES["sentinel"] = f"{__name__}:SentinelTransport"
    TRANSPORT_ALIASES["cluster"] = "sleipnir.worker.celery.groups:GroupsTransport"
