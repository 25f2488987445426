"""Messages go through RabbitMQ instead of our Redis: it decides nothing, so it may lose them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.dispatch import make_dispatcher
from sleipnir.scheduler.store.run_store import RunStore
from tests.support.fleet import Fleet, Load, under_fire
from tests.support.invariants import assert_consistent
from tests.support.rabbitmq import RabbitMQ, find_rabbitmq
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until
from tests.support.workers import Workers

pytestmark = [
    pytest.mark.chaos,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        find_rabbitmq() is None, reason="no rabbitmq-server: apt-get install rabbitmq-server"
    ),
]

# A node that takes longer than this without telling RabbitMQ has its connection closed.
CONSUMER_TIMEOUT_S = 3

LONG_NODE = """
start: s
nodes:
  s: {type: script, script: s.sh, timeout: 60, next: z}
  z: {type: end, output: done}
"""


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    configuration = {
        "consumer_timeout": CONSUMER_TIMEOUT_S * 1000,
        "channel_tick_interval": 1000,
    }
    with RabbitMQ(tmp_path_factory.mktemp("rabbitmq"), **configuration) as broker:
        yield broker


@pytest.fixture
def fleet(
    workers: Workers, redis_server: RedisServer, rabbitmq: RabbitMQ, rng: random.Random
) -> Fleet:
    """Two workers and schedulers that get their messages from RabbitMQ."""
    settings = Settings(redis_url=redis_server.url, broker_url=rabbitmq.url)
    dispatcher = make_dispatcher(redis_server.url, rabbitmq.url)
    workers.use(RunStore(workers.store.client, settings, dispatcher))
    return Fleet(workers, rng, 2, "--scheduler", broker_url=rabbitmq.url)


def test_runs_survive_kills_of_workers_and_the_loss_of_all_messages(
    fleet: Fleet, workers: Workers, rabbitmq: RabbitMQ, redis_client: redis.Redis
) -> None:
    load = Load(workers, 150, 8)
    lost = 0

    def lose_messages() -> None:
        nonlocal lost
        lost += rabbitmq.lose_messages()

    faults = [lose_messages, fleet.kill_one]
    under_fire(load.is_over, faults, every_s=0.3, at_least=6, timeout_s=200)

    load.check()
    assert lost > 10
    assert fleet.kills >= 3
    wait_until(lambda: rabbitmq.queued() == 0, "no message is left over")
    assert_consistent(redis_client, runs=150)


def test_workers_find_back_to_a_broker_that_was_killed(
    fleet: Fleet, workers: Workers, rabbitmq: RabbitMQ, redis_client: redis.Redis
) -> None:
    load = Load(workers, 60, 8)
    wait_until(lambda: load.tries() > 3, "runs are under way")

    rabbitmq.kill()
    unfinished = not load.is_over()
    rabbitmq.start()

    wait_until(load.is_over, "everything is done", 60)
    load.check()
    assert unfinished
    assert all(worker.is_running() for worker in fleet.members)
    assert_consistent(redis_client, runs=60)


def test_a_node_may_take_longer_than_the_broker_waits_for_it(
    fleet: Fleet, workers: Workers, redis_client: redis.Redis, tmp_path: Path
) -> None:
    note = f"echo x >> tries; sleep {3 * CONSUMER_TIMEOUT_S}; echo {{}}"
    run_id = workers.submit(LONG_NODE, {"s.sh": note}, workdir=str(tmp_path))
    logs = [worker.log for worker in fleet.members]
    closed = wait_until(
        lambda: [log for log in logs if "delivery acknowledgement" in log.read_text()],
        "RabbitMQ has lost its patience",
        2 * CONSUMER_TIMEOUT_S + 2,
    )
    meanwhile = Load(workers, 40, 5)
    wait_until(meanwhile.is_over, "both do other work")
    running = workers.run(run_id).status

    run = workers.client.wait(run_id)

    assert len(closed) == 1
    assert (running, run.status, run.output) == ("running", "succeeded", "done")
    assert (tmp_path / "tries").read_text() == "x\n"
    assert all(worker.is_running() for worker in fleet.members)
    assert all("succeeded" in log.read_text() for log in logs)
    assert_consistent(redis_client, runs=41)
