"""`sleipnir archive`: how the archive stands, whether it is sound, what is in it, and back."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sleipnir.scheduler.cli.app import cli
from sleipnir.scheduler.client.archive import restore
from sleipnir.scheduler.client.removal import remove, select
from sleipnir.scheduler.service.archiving.retention import remove_old
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.queries.filters import RunFilter
from tests.support.archive import PLAIN, archive
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.redis_server import RedisServer

Call = Callable[..., Result]
DAY_S = 86_400.0


@pytest.fixture
def home(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine whose runs go to a directory, as those of commands do."""
    monkeypatch.setenv("SLEIPNIR_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("SLEIPNIR_ARCHIVE", str(tmp_path / "archive"))
    engine.configure(archive=str(tmp_path / "archive"))
    return tmp_path / "archive"


@pytest.fixture
def call(redis_server: RedisServer, engine: Engine) -> Call:
    """The command line, on the Redis of the test's engine."""

    def call(verb: str, *arguments: str) -> Result:
        given = ["archive", verb, "--redis", redis_server.url, *arguments]
        return CliRunner().invoke(cli, given, standalone_mode=False)

    return call


def test_the_status_says_what_is_archived_and_what_waits(
    engine: Engine, home: Path, call: Call
) -> None:
    engine.finish(PLAIN, prompt="Ada")
    archive(engine)
    engine.finish(PLAIN, prompt="Bea")

    told = json.loads(call("status", "--json").stdout)

    assert (told["archive"], told["archived"], told["waiting"]) == (str(home), 1, 1)
    assert told["bytes"] == sum(file.stat().st_size for file in home.rglob("*.gz"))
    assert "1 run in" in call("status").stdout


def test_a_run_says_since_when_it_is_archived_and_where(
    engine: Engine, home: Path, redis_server: RedisServer
) -> None:
    run = engine.finish(PLAIN, prompt="Ada")

    def show(*options: str) -> str:
        given = ["show", run.run_id, "--redis", redis_server.url, *options]
        return CliRunner().invoke(cli, given, standalone_mode=False).stdout

    assert json.loads(show("--json"))["archived"] is None
    archive(engine)

    (file,) = home.rglob("*.gz")
    assert json.loads(show("--json"))["archived"]["object"] == str(file)
    at = to_rfc3339(int(1000 * file.stat().st_mtime))
    assert f"archived  {at}, {file}" in show()


def test_without_an_archive_that_is_said(engine: Engine, call: Call) -> None:
    assert "archive is not set" in call("status").output


def test_every_object_is_read_and_bad_ones_are_named(
    engine: Engine, home: Path, call: Call
) -> None:
    runs = [engine.finish(PLAIN, prompt=name) for name in ("Ada", "Bea", "Cem")]
    archive(engine)
    assert call("verify").return_value == 0
    gone, damaged = (next(home.rglob(f"{run.run_id}*")) for run in runs[:2])
    gone.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")

    found = call("verify", "--json")

    assert found.return_value == 1
    told = json.loads(found.stdout)
    assert told["runs"] == 3
    assert {each["run_id"] for each in told["bad"]} == {run.run_id for run in runs[:2]}


def test_a_run_comes_back(engine: Engine, home: Path, call: Call) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)

    assert json.loads(call("restore", run.run_id[:6], "--json").stdout) == {"restored": 1}

    assert "archived" not in engine.redis.hgetall(run_key("run", run.run_id))
    assert engine.run(run.run_id) == run
    assert_consistent(engine.redis, runs=1)


def test_a_run_that_redis_has_forgotten_comes_back(engine: Engine, home: Path, call: Call) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)
    engine.clock.move(engine.store.settings.retention_s)
    engine.tick()
    assert engine.newest_runs() == []
    shown = call("list", "--since", "2023-01-01T00:00:00Z", "--json")
    assert [json.loads(line)["run_id"] for line in shown.stdout.splitlines()] == [run.run_id]

    call("restore", run.run_id)

    assert engine.run(run.run_id) == run
    assert_consistent(engine.redis, runs=1)
    assert "no run" in call("restore", "f" * 16).output


def test_a_run_that_comes_back_is_not_listed_longer_than_its_object_is_there(
    engine: Engine, home: Path, call: Call
) -> None:
    engine.configure(archive=str(home), retention_s=7 * DAY_S, archive_retention_s=30 * DAY_S)
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)
    engine.clock.move(29 * DAY_S)
    engine.tick()
    assert engine.newest_runs() == []
    restore(engine.client, run.run_id)
    archive(engine)
    assert engine.client.queries.run(run.run_id) == run

    engine.clock.move(2 * DAY_S)
    engine.tick()

    assert engine.store.archive is not None
    assert remove_old(engine.store, engine.store.archive) == 1
    assert engine.newest_runs() == []


def test_an_object_that_somebody_forged_does_not_come_back(
    engine: Engine, home: Path, call: Call
) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)
    engine.clock.move(engine.store.settings.retention_s)
    engine.tick()
    (file,) = home.rglob("*.gz")
    document = json.loads(gzip.decompress(file.read_bytes()))
    document["record"]["earlier_ms"] = "9" * 400
    file.write_bytes(gzip.compress(json.dumps(document).encode()))

    assert "is not sound" in call("restore", run.run_id).output

    assert engine.newest_runs() == []


def test_a_run_that_is_removed_leaves_nothing_in_the_archive(engine: Engine, home: Path) -> None:
    engine.finish(PLAIN, prompt="Ada")
    archive(engine)

    assert [*remove(engine.client, select(engine.client.queries, RunFilter()))] == [True]

    assert [*home.rglob("*.gz")] == []


def test_what_is_old_leaves_the_archive(engine: Engine, home: Path) -> None:
    engine.configure(archive=str(home), archive_retention_s=30 * DAY_S)
    engine.finish(PLAIN, prompt="Ada")
    archive(engine)
    engine.clock.move(29 * DAY_S)
    engine.finish(PLAIN, prompt="Bea")
    archive(engine)
    assert engine.store.archive is not None
    assert remove_old(engine.store, engine.store.archive) == 0

    engine.clock.move(2 * DAY_S)

    assert remove_old(engine.store, engine.store.archive) == 1
    assert len([*home.rglob("*.gz")]) == 1
