"""Redis takes no more writes, for want of memory or disk, and then it does again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from redis.exceptions import RedisError

from sleipnir.scheduler.store.connection import connect
from tests.support import full_disk
from tests.support.fleet import SETTINGS, Load
from tests.support.invariants import assert_consistent
from tests.support.redis_server import RedisServer
from tests.support.wait import wait_until
from tests.support.workers import Workers


@pytest.fixture
def server(
    tmp_path: Path, own_directories: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RedisServer]:
    """A server to which a limit on its files is what a full disk is: writing fails."""
    full_disk.use_limitable_server(tmp_path, monkeypatch)
    with RedisServer(tmp_path / "redis") as started:
        yield started


class Memory:
    """No memory left."""

    def __init__(self, server: RedisServer, client: Any) -> None:
        self._client = client

    def fill(self) -> None:
        self._client.config_set("maxmemory", 1)

    def free(self) -> None:
        self._client.config_set("maxmemory", 0)


class Disk:
    """No room left for the append-only file."""

    def __init__(self, server: RedisServer, client: Any) -> None:
        self._pid = server.pid

    def fill(self) -> None:
        full_disk.fill(self._pid)

    def free(self) -> None:
        full_disk.free(self._pid)


def refuses_writes(client: Any) -> bool:
    try:
        client.set("sleipnir:batch:probe", "x", px=1)
    except RedisError:
        return True
    return False


def pause(seconds: float) -> None:
    until = monotonic() + seconds
    wait_until(lambda: monotonic() > until, "it stays like that for a while", seconds + 1)


# Fewer than there are threads: the worker goes on looking for messages. More: it does not.
@pytest.mark.parametrize(
    ("what", "runs"),
    [
        pytest.param(Disk, 6, id="disk-idle"),
        pytest.param(Disk, 40, id="disk-busy", marks=pytest.mark.chaos),
        pytest.param(Memory, 6, id="memory-idle", marks=pytest.mark.chaos),
        pytest.param(Memory, 40, id="memory-busy", marks=pytest.mark.chaos),
    ],
)
def test_runs_go_on_once_there_is_room_again(
    what: Any, runs: int, server: RedisServer, tmp_path: Path
) -> None:
    with connect(server.url) as client, Workers(server.url, client, tmp_path) as workers:
        worker = workers.start("--scheduler", **{**SETTINGS, "max_deliveries": 1})
        load = Load(workers, runs, 5)
        room = what(server, client)
        wait_until(lambda: load.tries() > 3, "runs are under way")

        room.fill()
        wait_until(lambda: refuses_writes(client), "Redis refuses writes")
        unfinished = not load.is_over()
        refused_at = monotonic()
        with pytest.raises(RedisError):
            load.submit_one()
        refused_in = monotonic() - refused_at
        pause(3)  # leases lapse, and none of the single tries is lost by it
        assert_consistent(client, runs=runs)
        room.free()

        wait_until(load.is_over, "all runs are over", 60)
        load.check()
        assert unfinished
        assert refused_in < 2
        assert worker.is_running()
        assert_consistent(client, runs=runs)
