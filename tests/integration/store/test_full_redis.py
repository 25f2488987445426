"""A Redis without room: transitions happen whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis.exceptions import OutOfMemoryError

from sleipnir.graphs.document.references import AgentSearch
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.doctor.diagnosis import diagnose
from sleipnir.scheduler.store.clients.transient import is_transient
from tests.integration.store.test_lua_contract import LEASED, leased
from tests.support.engine import Engine
from tests.support.invariants import rules_broken
from tests.support.keys import dump
from tests.support.redis_server import RedisServer


@contextmanager
def no_room(engine: Engine) -> Iterator[None]:
    engine.redis.config_set("maxmemory", 1)
    try:
        yield
    finally:
        engine.redis.config_set("maxmemory", 0)


@pytest.mark.parametrize("action", LEASED)
def test_a_transition_is_not_half_done(engine: Engine, action: str) -> None:
    lease = leased(engine, action)
    before = dump(engine.redis)

    with no_room(engine):
        try:
            LEASED[action](engine, lease)
            refused = False
        except OutOfMemoryError as error:
            refused = is_transient(error)

    # Runs made by hand have no bundle, and say nothing of their visits in the history.
    assert rules_broken(engine.redis) <= {"bundle", "commits"}
    assert refused == (dump(engine.redis) == before)


def test_doctor_says_so_and_goes_on(engine: Engine, redis_server: RedisServer) -> None:
    with no_room(engine):
        checks = list(diagnose(Settings(redis_url=redis_server.url), AgentSearch(())))

    said = {check.text for check in checks if check.name == "Redis" and check.state == "error"}
    assert any(text.startswith("Redis is full") for text in said)
    assert "bash" in {check.name for check in checks}
