"""A worker that cannot reach its broker ends when it is told to, as any other does."""

from __future__ import annotations

import os
import signal
import socket

import pytest

from tests.support.redis_server import RedisServer
from tests.support.sentinels import free_ports
from tests.support.workers import Workers

DRAIN_S = 1
# What deployments give it before they kill it.
ENDS_WITHIN_S = DRAIN_S + 20


@pytest.mark.parametrize("protocol", ["amqp", "redis"])
def test_a_worker_without_a_broker_ends_in_time(protocol: str, workers: Workers) -> None:
    (port,) = free_ports(1)
    url = f"{protocol}://127.0.0.1:{port}//"
    worker = workers.start_supervised(1, ready="Cannot connect", broker_url=url, drain_s=DRAIN_S)

    worker.terminate()

    assert worker.exit_code(ENDS_WITHIN_S) == 0


@pytest.mark.parametrize("protocol", ["amqp", "redis"])
def test_a_worker_whose_broker_says_nothing_ends_in_time(protocol: str, workers: Workers) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        url = f"{protocol}://127.0.0.1:{silent.getsockname()[1]}//"
        worker = workers.start_supervised(1, ready="", broker_url=url, drain_s=DRAIN_S)
        with silent.accept()[0]:
            worker.terminate()

            assert worker.exit_code(ENDS_WITHIN_S) == 0


def test_a_worker_whose_redis_hangs_ends_in_time(
    workers: Workers, redis_server: RedisServer
) -> None:
    worker = workers.start_supervised(1, drain_s=DRAIN_S)
    os.kill(redis_server.pid, signal.SIGSTOP)
    try:
        worker.terminate()

        assert worker.exit_code(ENDS_WITHIN_S) == 0
    finally:
        os.kill(redis_server.pid, signal.SIGCONT)
