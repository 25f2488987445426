"""Shared fixtures: a private Redis for the session, emptied before and checked after each test."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from sleipnir.scheduler.config.masking import known_secrets
from sleipnir.scheduler.store.connection import connect
from sleipnir.worker.llm.client import Endpoint, prepare
from sleipnir.worker.llm.provider.refused_fields import RefusedFields
from sleipnir.worker.llm.provider.transport import shared_transport
from tests.support.cluster import TRIED_CLUSTER, Cluster
from tests.support.engine import Clock, Engine
from tests.support.keys import leaked_keys
from tests.support.model_server import ModelServer
from tests.support.npm_packages import NO_NODE, NoPackages, has_node
from tests.support.npm_packages import node_modules as installed_node_modules
from tests.support.redis_server import RedisServer
from tests.support.workers import Workers

_NPM = "TypeScript and accessibility were not tested:"
_GATEWAY = "sleipnir.worker.llm.provider.gateway"

# Tests start hundreds of processes, so let one compile what all of them import.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# The caller may ignore these signals, as `nohup` does, and processes of tests would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Look for no garbage among what collecting makes, then or later: it stays, and is much."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process remembers what to mask: its environment, and the secrets that it has resolved."""
    known_secrets.cache_clear()
    monkeypatch.setattr("sleipnir.scheduler.config.secrets._handed_out", set())


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer | Cluster]:
    """Run one server for all tests that need one, or a cluster of three primaries if so told."""
    directory = tmp_path_factory.mktemp("redis")
    if TRIED_CLUSTER in os.environ:
        with Cluster(directory) as cluster:
            yield cluster
        return
    with RedisServer(directory) as server:
        yield server


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Return a directory with `tsx` and axe; without it the test is skipped, or fails on CI."""
    give_up = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    if not has_node():
        give_up(f"{_NPM} {NO_NODE}")
    try:
        return installed_node_modules()
    except NoPackages as error:
        give_up(f"{_NPM} {error}")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print, one line each, why npm packages and browsers were not tested."""
    reports = terminalreporter.getreports("skipped")
    reasons = {report.longrepr[2].removeprefix("Skipped: ") for report in reports}
    for reason in sorted(reasons):
        if reason.startswith((_NPM, "Browsers ")):
            terminalreporter.write_line(reason)


@pytest.fixture
def redis_client(redis_server: RedisServer) -> Iterator[redis.Redis]:
    """Yield an empty database; check afterwards that no key without an expiry is left."""
    with connect(redis_server.url) as client:
        client.flushall()
        yield client
        assert leaked_keys(client) == []


@pytest.fixture
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolate the test from the settings and data of the person running it."""
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setenv("SLEIPNIR_DATA_DIR", str(tmp_path / "data"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    """Run a model server that tests script, and that the environment names."""
    # It reads the environment's proxies once: do so before a test sets one for its tools.
    shared_transport()
    # What a server of another test refused at the same address.
    monkeypatch.setattr(f"{_GATEWAY}._refused", RefusedFields())
    with ModelServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-only-for-this-test")
        yield server


@pytest.fixture(params=["direct", "litellm"])
def each_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with models called directly, and again by way of litellm."""
    if request.param == "litellm":
        monkeypatch.setattr(f"{_GATEWAY}.is_asked_directly", lambda *_: False)
    # Import litellm now, so that the seconds it takes do not count against a test's time limit.
    prepare([Endpoint("openai/gpt-4o-mini")])


@pytest.fixture
def clock() -> Clock:
    """The clock of a test's engine, moved by hand."""
    return Clock()


@pytest.fixture
def engine(
    redis_client: redis.Redis, clock: Clock, tmp_path: Path, own_directories: None
) -> Engine:
    """Everything that runs an agent, in this process and with a clock moved by hand."""
    return Engine(redis_client, clock, tmp_path)


@pytest.fixture
def workers(
    redis_server: RedisServer, redis_client: redis.Redis, tmp_path: Path, own_directories: None
) -> Iterator[Workers]:
    """Start real worker processes; those still running are killed afterwards."""
    with Workers(redis_server.url, redis_client, tmp_path) as started:
        yield started
