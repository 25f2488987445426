"""What we override of kombu is still called, and leaves behind what kombu's own does.

Each test runs kombu's transport and ours on the same Redis. When kombu's minor version is raised in
pyproject.toml, these say what else has to change. tests/unit/worker/test_credit.py lists the names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from queue import Empty
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection, Consumer, Queue
from kombu.asynchronous import Hub
from kombu.transport import redis as kombus

from sleipnir.scheduler.store.keys import LANES, QUEUE
from sleipnir.worker.celery.broker import (
    Channel,
    Credit,
    SentinelChannel,
    SentinelTransport,
    Transport,
)
from tests.support.engine import Engine
from tests.support.queue import waiting
from tests.support.redis_server import RedisServer
from tests.support.runs import RUN, a_run

both = pytest.mark.parametrize("transport", [kombus.Transport, Transport])


class Consuming:
    """A channel that consumes the queue, one message at a time, as a worker's does."""

    def __init__(self, connection: Connection) -> None:
        self.received: list[Any] = []
        self.channel: Any = connection.default_channel
        self.channel.basic_qos(0, 1, False)
        self.channel.brpop_timeout = 0.05
        queue = Queue(QUEUE, routing_key=QUEUE)
        Consumer(self.channel, [queue], on_message=self.received.append).consume()
        self.cycle: Any = connection.transport.cycle


@pytest.fixture
def consuming(redis_server: RedisServer) -> Iterator[Callable[[type], Consuming]]:
    connections: list[Connection] = []

    def connected(transport: type) -> Consuming:
        options = {"ack_emulation": False, "priority_steps": list(range(LANES))}
        connection = Connection(redis_server.broker_url, transport_options=options)
        connection.transport_cls = transport
        connections.append(connection)
        return Consuming(connection)

    yield connected
    for connection in connections:
        connection.close()


@both
def test_brpop_start_is_asked_by_the_poller_and_says_that_it_waits(
    engine: Engine, consuming: Callable[[type], Consuming], transport: type
) -> None:
    own = consuming(transport)
    before = own.channel._brpop_sent_at

    own.cycle.on_poll_start()

    assert own.channel._in_poll is own.channel.client.connection
    assert own.channel._brpop_sent_at != before


def test_brpop_start_in_the_order_of_turns_says_the_same(
    engine: Engine, consuming: Callable[[type], Consuming]
) -> None:
    own = consuming(Transport)
    own.channel._by_turn = True
    before = own.channel._brpop_sent_at

    own.cycle.on_poll_start()

    assert own.channel._in_poll is own.channel.client.connection
    assert own.channel._brpop_sent_at != before


@both
def test_brpop_read_delivers_a_message_and_says_that_nothing_waits(
    engine: Engine, consuming: Callable[[type], Consuming], transport: type
) -> None:
    engine.store.runs.submit(a_run())
    own = consuming(transport)
    own.cycle.on_poll_start()

    assert own.channel.handlers["BRPOP"]() is True

    (message,) = own.received
    assert json.loads(message.body)[0][0] == RUN
    assert not own.channel._in_poll


@both
def test_brpop_read_of_an_empty_queue_says_that_it_is_empty(
    engine: Engine, consuming: Callable[[type], Consuming], transport: type
) -> None:
    own = consuming(transport)
    own.cycle.on_poll_start()

    with pytest.raises(Empty):
        own.channel.handlers["BRPOP"]()

    assert not own.channel._in_poll


@both
def test_can_consume_keeps_the_poller_from_asking(
    engine: Engine, consuming: Callable[[type], Consuming], transport: type
) -> None:
    engine.store.runs.submit(a_run())
    own = consuming(transport)
    own.cycle.on_poll_start()
    own.channel.handlers["BRPOP"]()

    own.cycle.on_poll_start()

    assert own.channel.qos.can_consume() is False
    assert not own.channel._in_poll


@pytest.mark.parametrize(
    ("transport", "is_readable"), [(kombus.Transport, False), (Transport, True)]
)
def test_restore_puts_a_refused_message_back_and_only_ours_such_that_workers_can_read_it(
    engine: Engine,
    consuming: Callable[[type], Consuming],
    transport: type,
    is_readable: bool,
) -> None:
    engine.store.runs.submit(a_run())
    before = [json.loads(text) for text in waiting(engine.redis)]
    own = consuming(transport)
    own.cycle.on_poll_start()
    own.channel.handlers["BRPOP"]()

    own.received[0].requeue()

    (after,) = [json.loads(text) for text in waiting(engine.redis)]
    assert isinstance(after["body"], str) is is_readable
    assert ([after] == before) is is_readable


@pytest.mark.parametrize(("transport", "restored"), [(kombus.Transport, 1), (Transport, 0)])
def test_do_restore_decides_whether_a_closed_channel_puts_back_what_it_has(
    engine: Engine,
    consuming: Callable[[type], Consuming],
    transport: type,
    restored: int,
) -> None:
    engine.store.runs.submit(a_run())
    own = consuming(transport)
    own.cycle.on_poll_start()
    own.channel.handlers["BRPOP"]()

    own.channel.close()

    assert len(waiting(engine.redis)) == restored


class Loop(Hub):  # type: ignore[misc]  # kombu publishes no types
    """kombu's event loop, which notes the readers that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[int] = []

    def add_reader(self, fd: int, callback: Any, *arguments: Any) -> Any:
        self.added.append(fd)
        return super().add_reader(fd, callback, *arguments)


@pytest.mark.parametrize(("transport", "times"), [(kombus.Transport, 3), (Transport, 1)])
def test_register_with_event_loop_adds_a_reader_on_each_tick_and_ours_once(
    engine: Engine, consuming: Callable[[type], Consuming], transport: type, times: int
) -> None:
    own, loop = consuming(transport), Loop()
    connection = own.channel.connection
    connection.register_with_event_loop(SimpleNamespace(client=connection.client), loop)

    for tick in [*loop.on_tick] * 3:
        tick()

    assert len(loop.added) == times
    assert [callback for callback, _ in loop.readers.values()] == [connection.on_readable]


def test_channel_is_the_class_of_which_a_transport_makes_its_channels(
    consuming: Callable[[type], Consuming],
) -> None:
    channel = consuming(Transport).channel

    assert type(channel) is Channel
    assert type(channel.qos) is Credit
    assert SentinelTransport.Channel is SentinelChannel
    assert issubclass(SentinelChannel, kombus.SentinelChannel)
