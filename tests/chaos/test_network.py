"""Between a worker and Redis the network fails in every way; the worker finds back by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import pytest
import redis

from tests.support.fleet import SETTINGS, Load
from tests.support.invariants import assert_consistent
from tests.support.proxy import Proxy
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until
from tests.support.workers import Workers

BACK_AT_WORK_S = 60


@pytest.fixture
def proxy(redis_server: RedisServer) -> Iterator[Proxy]:
    with Proxy(redis_server.socket_file) as started:
        yield started


def stays_broken(seconds: float) -> None:
    until = monotonic() + seconds
    wait_until(lambda: monotonic() > until, "the network is broken for a while", seconds + 1)


def half_open(proxy: Proxy) -> None:
    proxy.go_silent()  # for the connections there are
    proxy.recover()


def cut(proxy: Proxy) -> None:
    proxy.reset()


def away(proxy: Proxy) -> None:
    proxy.refuse()
    stays_broken(1)
    proxy.recover()


def slow(proxy: Proxy) -> None:
    proxy.delay_s = 0.2
    stays_broken(2)
    proxy.delay_s = 0


@pytest.mark.parametrize(
    "fault",
    [
        cut,
        away,
        pytest.param(slow, marks=pytest.mark.chaos),
        pytest.param(half_open, marks=pytest.mark.chaos),
    ],
)
def test_a_worker_consumes_again_after_the_connection_was(
    fault: Callable[[Proxy], None], proxy: Proxy, workers: Workers, redis_client: redis.Redis
) -> None:
    worker = workers.start("--scheduler", url=proxy.url, **SETTINGS)
    load = Load(workers, 20, 5)
    wait_until(lambda: load.tries() > 0, "it is at work")

    fault(proxy)

    wait_until(load.is_over, "everything is done", BACK_AT_WORK_S)
    again = Load(workers, 5, 5)
    wait_until(again.is_over, "what came later is done too", BACK_AT_WORK_S)
    load.check()
    assert worker.is_running()
    assert proxy.accepted > 3
    assert_consistent(redis_client, runs=20)
