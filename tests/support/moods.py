"""States of a real Redis in which it answers, but refuses commands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from redis.exceptions import RedisError

from sleipnir.scheduler.store.clients.transient import is_transient
from sleipnir.scheduler.store.connection import connect
from tests.support.wait import wait_until

_NOBODY = ("127.0.0.1", "1")  # no existing primary
_BUSY_WITH = "while true do end"


@contextmanager
def _config(client: Any, **values: str | int) -> Iterator[None]:
    names = {name.replace("_", "-"): value for name, value in values.items()}
    before = {name: client.config_get(name)[name] for name in names}
    for name, value in names.items():
        client.config_set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            client.config_set(name, value)


@contextmanager
def full(url: str) -> Iterator[None]:
    """OOM: no memory is left."""
    with connect(url) as client, _config(client, maxmemory=1):
        yield


@contextmanager
def demoted(url: str) -> Iterator[None]:
    """READONLY: it has become a replica. Clients that wait for a message get UNBLOCKED."""
    with connect(url) as client:
        client.replicaof(*_NOBODY)
        try:
            yield
        finally:
            client.replicaof("NO", "ONE")


@contextmanager
def orphaned(url: str) -> Iterator[None]:
    """MASTERDOWN: a replica that does not even serve reads."""
    with connect(url) as client, _config(client, replica_serve_stale_data="no"), demoted(url):
        yield


@contextmanager
def alone(url: str) -> Iterator[None]:
    """NOREPLICAS: it must have a replica before it accepts writes."""
    with connect(url) as client, _config(client, min_replicas_to_write=1):
        yield


@contextmanager
def busy(url: str) -> Iterator[None]:
    """BUSY: a script does not end."""
    with connect(url) as client, _config(client, lua_time_limit=1), connect(url) as other:

        def hold_up() -> None:
            with_error = _error_of(lambda: other.eval(_BUSY_WITH, 0))
            assert "kill" in str(with_error).lower()

        holder = threading.Thread(target=hold_up)
        holder.start()
        try:
            wait_until(lambda: _error_of(client.ping), "Redis is busy", 60)
            yield
        finally:
            client.script_kill()
            holder.join()


MOODS: dict[str, Callable[[str], Any]] = {
    mood.__name__: mood for mood in (full, demoted, orphaned, alone, busy)
}


@contextmanager
def refusing(url: str, mood: str) -> Iterator[None]:
    """Enter a state, and run the block once Redis refuses writes because of it."""
    with connect(url) as client, MOODS[mood](url):
        error = wait_until(
            lambda: _error_of(lambda: client.set("sleipnir:batch:probe", "x", px=1)),
            f"Redis is {mood}",
            60,
        )
        assert is_transient(error)
        yield


def _error_of(call: Callable[[], object]) -> RedisError | None:
    try:
        call()
    except RedisError as error:
        return error
    return None
