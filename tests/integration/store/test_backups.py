"""Backups: the manual's steps bring back what was stored."""

from __future__ import annotations

import shutil
from pathlib import Path

import redis

from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until


def test_a_snapshot_is_restored_under_an_append_only_file(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "lost") as server, redis.Redis.from_url(server.url) as client:
        client.mset({f"key:{number}": "x" for number in range(100)})
        client.save()
        shutil.copy(tmp_path / "lost" / "dump.rdb", tmp_path / "backup.rdb")
    directory = tmp_path / "new"
    directory.mkdir()
    shutil.copy(tmp_path / "backup.rdb", directory / "dump.rdb")

    first = RedisServer(directory, "--appendonly", "no")
    with first as server, redis.Redis.from_url(server.url) as client:
        assert client.dbsize() == 100
        client.config_set("appendonly", "yes")
        wait_until(lambda: _is_rewritten(client), "the append-only file has the snapshot")

    with RedisServer(directory) as server, redis.Redis.from_url(server.url) as client:
        assert client.info("persistence")["aof_enabled"] == 1
        assert client.dbsize() == 100


def _is_rewritten(client: redis.Redis) -> bool:
    told = client.info("persistence")
    return not told["aof_rewrite_in_progress"] and told["aof_last_bgrewrite_status"] == "ok"
