"""Messages: those the transitions push are Celery's own, and nothing else gets in."""

from __future__ import annotations

import base64
import json
import pickle
from itertools import count
from pathlib import Path
from queue import Empty
from typing import Any
from weakref import WeakSet

import pytest
import redis
from celery import Celery
from kombu import Connection, Consumer, Queue

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.service.scheduler import Scheduler
from sleipnir.scheduler.store.dispatch import TASK, make_dispatcher
from sleipnir.scheduler.store.keys import LANES, QUEUE, lane_key
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.celery.broker import Channel, Transport, stop_receiving
from tests.support.engine import Engine
from tests.support.queue import take, waiting
from tests.support.redis_server import RedisServer
from tests.support.runs import DIGEST, RUN, a_run
from tests.support.wait import wait_until
from tests.support.workers import Workers

END = """
start: z
nodes: {z: {type: end, output: done}}
"""
TWO_STEPS = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end, output: done}
"""


@pytest.fixture
def celery(redis_server: RedisServer) -> Celery:
    return Celery(broker=redis_server.broker_url, set_as_current=False)


def shape(value: Any) -> Any:
    """A message with its values replaced by their types."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return [shape(inner) for inner in value] if isinstance(value, list) else type(value).__name__


def take_message(client: redis.Redis) -> dict[str, Any]:
    message: dict[str, Any] = json.loads(take(client) or "null")
    return message


def test_a_pushed_message_is_what_celery_would_have_published(
    engine: Engine, celery: Celery
) -> None:
    engine.store.runs.submit(a_run())
    ours = take_message(engine.redis)
    celery.send_task(
        TASK, args=(RUN, "1/s", DIGEST), shadow="tested/s", queue=QUEUE, ignore_result=True
    )
    theirs = take_message(engine.redis)

    # Plain text instead of base64, and a time by which the scheduler judges the queue.
    assert ours["headers"].pop("published_ms") == engine.clock.ms
    assert theirs["properties"].pop("body_encoding") == "base64"
    theirs["body"] = base64.b64decode(theirs["body"]).decode()
    assert shape(ours) == shape(theirs)
    assert json.loads(ours["body"])[0] == json.loads(theirs["body"])[0] == [RUN, "1/s", DIGEST]
    for same in ("lang", "task", "shadow", "ignore_result", "kwargsrepr", "timelimit"):
        assert ours["headers"][same] == theirs["headers"][same]
    for same in ("delivery_info", "delivery_mode", "priority"):
        assert ours["properties"][same] == theirs["properties"][same]


def test_names_survive_the_way_through_the_message(engine: Engine) -> None:
    node = "узел \"\\'@ID@%1 {}".replace(" ", "\u00a0")
    engine.store.runs.submit(a_run(start=node, agent='a"b\\c'))

    message = take_message(engine.redis)

    assert message["headers"]["shadow"] == f'a"b\\c/{node}'
    assert json.loads(message["body"])[0] == [RUN, f"1/{node}", DIGEST]


def test_every_message_has_an_id_of_its_own(engine: Engine) -> None:
    for number in range(20):
        engine.store.runs.submit(a_run(f"{number:016x}"))

    ids = {take_message(engine.redis)["headers"]["id"] for _ in range(20)}

    assert len(ids) == 20


def test_a_broker_that_is_down_fails_no_transition(
    engine: Engine, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dispatcher = make_dispatcher("redis://elsewhere", f"redis+socket://{tmp_path}/nothing.sock")
    store = RunStore(engine.redis, engine.store.settings, dispatcher, engine.clock)

    created = store.runs.submit(a_run())

    assert created
    assert engine.run(RUN).status == "queued"
    assert "cannot publish" in caplog.text


def test_on_another_broker_a_message_is_repeated_ever_more_rarely(
    engine: Engine, redis_server: RedisServer
) -> None:
    # How long that queue is nobody knows: repeating each of its messages every few seconds
    # would be what fills it.
    dispatcher = make_dispatcher("redis://elsewhere", redis_server.broker_url)
    store = RunStore(engine.redis, engine.store.settings, dispatcher, engine.clock)
    store.runs.submit(a_run())
    scheduler = Scheduler(store, monotonic=engine.clock.passed_s)
    published_after = []

    for second in range(0, 260, 5):
        scheduler.run_once()
        if take(engine.redis):
            published_after.append(second)
        engine.clock.move(5)

    assert published_after == [0, 5, 15, 35, 75, 135, 195, 255]


def test_what_reaches_a_worker_that_takes_no_more_is_for_another(
    engine: Engine, redis_server: RedisServer
) -> None:
    engine.store.runs.submit(a_run())
    engine.store.runs.submit(a_run(f"{2:016x}"))
    before = [json.loads(text) for text in waiting(engine.redis)]
    taken = json.loads(take(engine.redis) or "")

    # A worker that stops cancels its consumers before its last command to Redis is answered.
    with Connection(redis_server.broker_url) as connection:
        connection.transport_cls = Transport
        channel = connection.default_channel
        Consumer(channel, [Queue(QUEUE)], on_message=print).declare()
        channel.connection._deliver(taken, QUEUE)

    after = [json.loads(text) for text in waiting(engine.redis)]
    assert after == before


def test_a_worker_runs_what_celery_published(
    workers: Workers, redis_server: RedisServer, redis_client: redis.Redis
) -> None:
    settings = Settings(redis_url=redis_server.url)
    dispatcher = make_dispatcher("redis://elsewhere", redis_server.broker_url)
    workers.use(RunStore(redis_client, settings, dispatcher))
    # Its broker has another name than its Redis, so it publishes by Celery as well.
    workers.start("--broker", redis_server.broker_url)

    run_id = workers.submit(TWO_STEPS, {"s.sh": "echo '{}'"})

    assert workers.client.wait(run_id).output == "done"


class Trap:
    """Leaves a file where it is unpickled."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return Path.touch, (self._file,)


TAGS = count()


def foreign_messages(trap: Path) -> dict[str, str | bytes]:
    def message(task: str, body: bytes, content_type: str = "application/json") -> str:
        return json.dumps(
            {
                "body": base64.b64encode(body).decode(),
                "content-encoding": "utf-8",
                "content-type": content_type,
                "headers": {"task": task, "id": "x", "lang": "py", "root_id": "x"},
                "properties": {
                    "correlation_id": "x",
                    "delivery_tag": str(next(TAGS)),
                    "delivery_info": {"exchange": "", "routing_key": QUEUE},
                    "body_encoding": "base64",
                },
            }
        )

    pickled = pickle.dumps(((Trap(trap), "1/z", DIGEST), {}, {}))
    return {
        "pickle": message(TASK, pickled, "application/x-python-serialize"),
        "pickle said to be JSON": message(TASK, pickled),
        "another task": message("os.system", b'[["true"], {}, {}]'),
        "not even three parts": message(TASK, b"[]"),
        "wrong arguments": message(TASK, b'[["a"], {}, {}]'),
        "no run": message(TASK, json.dumps([["zz", "1/z", DIGEST], {}, {}]).encode()),
        "no message": "{}",
        "no JSON": "garbage",
        "no text": b"\xff\xfe",
        "too deep": "[" * 100_000,
        "too deep inside": message(TASK, b"[" * 100_000),
    }


def test_foreign_messages_are_refused_and_harm_nobody(
    workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    worker = workers.start("--scheduler", "--concurrency", "2")
    for _ in range(5):  # each would take a place of a thread with it
        redis_client.lpush(QUEUE, *foreign_messages(tmp_path / "trap").values())

    run_id = workers.submit(TWO_STEPS, {"s.sh": "echo '{}'"})

    assert workers.client.wait(run_id).output == "done"
    assert not (tmp_path / "trap").exists()
    assert worker.is_running()


LANED = {"priority_steps": list(range(LANES))}


def asks(channel: Any) -> None:
    """Have a channel ask for a message as its event loop does."""
    channel.connection.cycle._register_BRPOP(channel)


@pytest.mark.parametrize("by_turn", [False, True])
def test_what_a_stopping_worker_is_sent_last_goes_back_to_its_queue(
    redis_server: RedisServer,
    redis_client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    by_turn: bool,
) -> None:
    monkeypatch.setattr(Channel, "are_stopped", False)
    monkeypatch.setattr(Channel, "opened", WeakSet())
    text = json.dumps({"body": "[]", "properties": {}})
    with Connection(redis_server.broker_url, transport_options=LANED) as connection:
        connection.transport_cls = Transport
        channel = connection.channel()
        with Consumer(channel, [Queue(QUEUE)], accept=["json"]):
            channel._by_turn = by_turn
            if by_turn:
                redis_client.lpush(lane_key(QUEUE, 2), text)
            asks(channel)
            if not by_turn:
                redis_client.lpush(lane_key(QUEUE, 2), text)
            wait_until(lambda: not redis_client.exists(lane_key(QUEUE, 2)), "it is taken")

            stop_receiving()

            assert redis_client.lrange(lane_key(QUEUE, 2), 0, -1) == [text]
            asks(channel)  # for nothing more
            with pytest.raises(Empty):
                channel._brpop_read()
    assert redis_client.lrange(lane_key(QUEUE, 2), 0, -1) == [text]


def test_a_stopping_worker_that_is_sent_nothing_does_not_wait(
    redis_server: RedisServer, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Channel, "are_stopped", False)
    monkeypatch.setattr(Channel, "opened", WeakSet())
    with Connection(redis_server.broker_url, transport_options=LANED) as connection:
        connection.transport_cls = Transport
        channel = connection.channel()
        with Consumer(channel, [Queue(QUEUE)], accept=["json"]):
            asks(channel)
            stop_receiving()
            redis_client.lpush(lane_key(QUEUE, 2), "later")

    assert redis_client.lrange(lane_key(QUEUE, 2), 0, -1) == ["later"]
