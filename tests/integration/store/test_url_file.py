"""The URL of Redis in a file: its password changes while processes run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from sleipnir.scheduler.config.secret_files.redis_url_file import UrlOfFile
from sleipnir.scheduler.errors import EngineUnreachable
from sleipnir.scheduler.store.clients.aio import connect_async
from sleipnir.scheduler.store.connection import connect, kombu_url, transport_options
from sleipnir.worker.celery.app import make_app
from tests.support.on_asyncio import run_in_thread
from tests.support.redis_server import RedisServer
from tests.support.workers import Workers

GRAPH = "start: s\nnodes:\n  s: {type: script, script: s.sh, next: z}\n  z: {type: end}\n"


class Rotated:
    """A Redis with a user, whose password is in a file."""

    def __init__(self, server: RedisServer, admin: Any, file: Path) -> None:
        self.server = server
        self.admin = admin
        self.file = file
        self.rotate("first")

    def rotate(self, password: str) -> None:
        """Give the user another password, and end all its connections."""
        self.file.write_text(f"{self.server.url}&username=runs&password={password}\n")
        self.file.chmod(0o600)
        self.admin.execute_command(
            "ACL", "SETUSER", "runs", "on", "resetpass", f">{password}", "~*", "&*", "+@all"
        )
        self.admin.client_kill_filter(user="runs")


@pytest.fixture
def rotated(tmp_path: Path) -> Iterator[Rotated]:
    with RedisServer(tmp_path / "redis") as server, connect(server.url) as admin:
        yield Rotated(server, admin, tmp_path / "redis-url")


def test_clients_on_threads_and_on_asyncio_use_the_new_password(rotated: Rotated) -> None:
    url = UrlOfFile.read(str(rotated.file))

    async def ask_twice() -> None:
        redis, _ = connect_async(url)
        await redis.ping()
        await asyncio.to_thread(rotated.rotate, "third")
        assert await redis.execute_command("ACL", "WHOAMI") == "runs"
        await redis.aclose()

    with connect(url) as client:
        rotated.rotate("second")
        assert client.execute_command("ACL", "WHOAMI") == "runs"
    run_in_thread(ask_twice())


def test_a_new_connection_with_the_old_password_is_refused(rotated: Rotated) -> None:
    url = UrlOfFile.read(str(rotated.file))
    rotated.admin.execute_command("ACL", "SETUSER", "runs", "resetpass", ">other")

    with pytest.raises(EngineUnreachable, match="authentication failed") as refused:
        connect(url)

    assert "first" not in str(refused.value)


def test_the_url_has_no_login_and_neither_has_the_brokers(rotated: Rotated) -> None:
    url = UrlOfFile.read(str(rotated.file))
    broker = make_app(url, 1).connection_for_read()

    assert url == rotated.server.url
    assert "first" not in kombu_url(url)
    assert "first" not in repr(transport_options(url))
    assert "first" not in repr(broker.info())
    assert isinstance(broker, Connection)


@pytest.mark.timeout(300)
def test_workers_go_on_with_the_new_password(rotated: Rotated, tmp_path: Path) -> None:
    with Workers(rotated.server.url, rotated.admin, tmp_path) as workers:
        workers.start_supervised(1, redis_url_file=rotated.file)
        workers.start_scheduler(redis_url_file=rotated.file)
        before = workers.client.wait(workers.submit(GRAPH, {"s.sh": "echo '{}'"}))
        users = {each["user"] for each in rotated.admin.client_list() if each["cmd"] == "brpop"}

        rotated.rotate("second")
        after = workers.client.wait(workers.submit(GRAPH, {"s.sh": "echo '{}'"}))

    assert (before.failure, after.failure) == (None, None)
    assert users == {"runs"}
