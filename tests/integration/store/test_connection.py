"""Connecting to Redis: what is refused, warned of, and waited for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import redis

from sleipnir.scheduler.errors import EngineUnfit, EngineUnreachable
from sleipnir.scheduler.process.data_format import DATA_FORMAT
from sleipnir.scheduler.store.connection import connect, masked, require_fit
from sleipnir.scheduler.store.keys import FORMAT, LAYOUT
from sleipnir.scheduler.store.queries import narration
from tests.support.engine import Engine
from tests.support.redis_server import RedisServer
from tests.support.sentinels import cluster_options, free_ports


def test_a_blocking_read_ends_before_the_connection_gives_up(redis_server: RedisServer) -> None:
    with connect(redis_server.url) as client:
        options: dict[str, Any] = client.connection_pool.connection_kwargs

    assert options["socket_timeout"] > 2 * narration._BLOCK_MS / 1000


def test_hundreds_of_threads_may_talk_to_redis_at_once(redis_server: RedisServer) -> None:
    with connect(redis_server.url) as client:
        taken = [client.connection_pool.get_connection() for _ in range(500)]

        assert len({id(connection) for connection in taken}) == 500


def test_an_address_without_redis_is_named_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(EngineUnreachable, match="cannot reach Redis at unix") as raised:
        connect(f"unix://user:secret@{tmp_path}/nothing.sock")

    assert "secret" not in str(raised.value)
    assert "SLEIPNIR_REDIS_URL" in str(raised.value)


def test_a_redis_with_a_password_says_where_to_put_it(redis_server: RedisServer) -> None:
    with redis.Redis.from_url(redis_server.url) as client:
        client.config_set("requirepass", "secret")
        try:
            for url in (redis_server.url, f"{redis_server.url}&password=wrong"):
                with pytest.raises(EngineUnreachable, match="redis://USER:PASSWORD@HOST"):
                    connect(url)
        finally:
            client.config_set("requirepass", "")


def test_a_password_is_masked() -> None:
    assert masked("redis://user:secret@host:6379/0") == "redis://user:***@host:6379/0"
    assert masked("redis://:secret@host") == "redis://:***@host"
    assert masked("redis://user:se@c/ret@host") == "redis://user:***@host"
    assert (
        masked("unix:///redis.sock?password=secret&db=1") == "unix:///redis.sock?password=***&db=1"
    )


def test_a_redis_that_keeps_everything_is_fit(redis_client: redis.Redis) -> None:
    assert require_fit(redis_client) == []


def test_a_redis_that_evicts_keys_is_refused_unless_allowed(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, connect(server.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")

        with pytest.raises(EngineUnfit, match="maxmemory-policy is allkeys-lru"):
            require_fit(client)
        assert require_fit(client, allow_unsafe=True) == []


def test_a_replica_is_refused(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, connect(server.url) as client:
        client.replicaof("127.0.0.1", "1")

        with pytest.raises(EngineUnfit, match="use the URL of the primary"):
            require_fit(client, allow_unsafe=True)


def test_a_redis_in_cluster_mode_is_refused(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path, *cluster_options()) as server,
        connect(server.url) as client,
        pytest.raises(EngineUnfit, match=r"in cluster mode; use redis\+cluster://HOST:PORT"),
    ):
        require_fit(client, allow_unsafe=True)


def test_a_url_of_the_other_mode_is_refused(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with (
        RedisServer(tmp_path / "one", "--port", str(port), "--bind", "127.0.0.1"),
        pytest.raises(EngineUnfit, match="not in cluster mode; use redis://HOST:PORT"),
    ):
        connect(f"redis+cluster://127.0.0.1:{port}")


def test_runs_of_another_data_format_are_refused(engine: Engine) -> None:
    engine.submit("start: z\nnodes: {z: {type: end}}")
    require_fit(engine.redis)
    engine.redis.incr(FORMAT)

    message = f"format {DATA_FORMAT + 1}, this version needs {DATA_FORMAT}\\): finish them"
    with pytest.raises(EngineUnfit, match=message):
        require_fit(engine.redis, allow_unsafe=True)
    engine.redis.delete(FORMAT)
    with pytest.raises(EngineUnfit, match="format 5 or older"):
        require_fit(engine.redis)


def test_runs_in_another_layout_are_refused(engine: Engine) -> None:
    engine.submit("start: z\nnodes: {z: {type: end}}")
    engine.redis.hset(LAYOUT, "groups", 16)

    with pytest.raises(EngineUnfit, match="in 16 groups, and this URL needs 1: runs of a single"):
        require_fit(engine.redis)


def test_a_layout_counts_before_there_are_runs(redis_client: redis.Redis) -> None:
    redis_client.hset(LAYOUT, mapping={"format": DATA_FORMAT, "groups": 16})

    with pytest.raises(EngineUnfit, match="in 16 groups, and this URL needs 1"):
        require_fit(redis_client)


def test_an_empty_redis_may_have_held_another_data_format(redis_client: redis.Redis) -> None:
    redis_client.set(FORMAT, DATA_FORMAT - 1)

    assert require_fit(redis_client) == []


def test_a_redis_that_persists_nothing_is_warned_of(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as server, connect(server.url) as client:
        client.config_set("appendonly", "no")

        (warning,) = require_fit(client)

    assert "no append-only file" in warning
