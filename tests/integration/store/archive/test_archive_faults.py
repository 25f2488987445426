"""Whatever fails while runs are archived, no run is lost, and none is there twice."""

from __future__ import annotations

import random
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from threading import Event

import pytest

from sleipnir.scheduler.errors import ArchiveFailed, SettingInvalid
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.service.archiving.archiver import Archiver
from sleipnir.scheduler.store.archive.archive import Archive
from sleipnir.scheduler.store.archive.archived_runs import ArchivedRuns
from sleipnir.scheduler.store.archive.cache import ObjectCache
from sleipnir.scheduler.store.archive.figures import ArchiveCounts
from sleipnir.scheduler.store.archive.objects import Objects
from sleipnir.scheduler.store.archive.restoring import restore_tree
from sleipnir.scheduler.store.archive.sealing import ArchiveKey
from sleipnir.scheduler.store.archive.whole_runs import WholeRuns
from sleipnir.scheduler.store.keys import run_key
from tests.support.archive import AFTER_S, PLAIN, archive
from tests.support.dying import survives
from tests.support.engine import Engine
from tests.support.invariants import assert_consistent
from tests.support.wait import wait_until

KEY = "k" * 64
STEPS = [(WholeRuns, name) for name in ("due", "sizes", "read", "archive")]
STEPS += [(Archive, "put"), (Objects, "create"), (Objects, "read"), (Objects, "sync")]


@pytest.fixture
def home(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An engine whose runs go to a directory, encrypted."""
    monkeypatch.setenv("SLEIPNIR_DATA_DIR", str(tmp_path / "data"))
    key = tmp_path / "archive.key"
    key.write_text(KEY)
    key.chmod(0o600)
    engine.configure(archive=str(tmp_path / "archive"), archive_key_file=str(key))
    return tmp_path / "archive"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("owner", "step"), STEPS, ids=lambda each: getattr(each, "__name__", each))
def test_a_process_that_dies_anywhere_loses_and_doubles_nothing(
    engine: Engine, home: Path, owner: type, step: str, when: str
) -> None:
    run = engine.finish(PLAIN, prompt="Ada")

    survived = survives(f"{when}.{step}:kill", lambda: archive(engine), owner)

    assert not survived
    assert engine.client.queries.run(run.run_id) == run
    archive(engine)
    assert engine.client.queries.run(run.run_id) == run
    assert "archived" in engine.redis.hgetall(run_key("run", run.run_id))
    assert len([*home.rglob("*.gz")]) == 1
    assert_consistent(engine.redis, runs=1)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_dies_bringing_a_run_back_loses_nothing(
    engine: Engine, home: Path, when: str
) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)

    assert not survives(
        f"{when}.restore:kill", lambda: restore_tree(engine.store, run.run_id), WholeRuns
    )

    restore_tree(engine.store, run.run_id)
    assert engine.run(run.run_id) == run
    assert_consistent(engine.redis, runs=1)


class Unreliable(Objects):
    """Half of all writes fail: nothing, a part or all of it is there, or what was not written."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url)
        self._random = random.Random(seed)

    def create(self, name: str, data: bytes) -> bool:
        fate = self._random.choice(["", "", "", "nothing", "part", "all", "other"])
        if fate == "":
            return super().create(name, data)
        if fate == "other":
            return super().create(name, data[:-1] + b"?")
        if fate == "all" or fate == "part":
            super().create(name, data if fate == "all" else data[: len(data) // 2])
        raise ArchiveFailed("made to fail")


@pytest.mark.parametrize("seed", range(3))
def test_an_archive_that_fails_half_the_time_gets_everything_in_the_end(
    engine: Engine, home: Path, seed: int
) -> None:
    runs = [engine.finish(PLAIN, prompt=f"Ada {number}") for number in range(12)]
    engine.store.archive = Archive(Unreliable(str(home), seed), ArchiveKey(None))
    engine.store.archived = ArchivedRuns(
        engine.redis, engine.store.archive, ObjectCache(home / "cache")
    )
    queries = engine.client.queries.__class__(
        engine.redis, engine.store.clock, engine.store.archived
    )

    failed = archive(engine).failed
    while archived(engine) < len(runs):
        assert [queries.run(run.run_id) for run in runs] == runs
        failed += archive(engine, after_s=60).failed

    assert failed > 0
    assert [queries.run(run.run_id) for run in runs] == runs
    assert ArchiveCounts(engine.redis, engine.store.clock).read().failures == failed
    assert_consistent(engine.redis, runs=len(runs))


class Unsynced(Objects):
    """Its disk takes objects, and cannot keep their names."""

    def sync(self, directory: str) -> None:
        raise ArchiveFailed(f"cannot sync {directory}")


def test_nothing_is_removed_before_the_names_of_objects_are_on_disk(
    engine: Engine, home: Path
) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    engine.store.archive = Archive(Unsynced(str(home)), ArchiveKey(None))

    failed = archive(engine)

    assert (failed.archived, failed.failed, failed.stored_bytes) == (0, 1, 0)
    assert failed.reason.startswith("cannot sync runs/")
    assert archived(engine) == 0
    assert engine.client.queries.run(run.run_id) == run


class Hanging(Objects):
    """Never answers."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.is_asked = Event()

    def create(self, name: str, data: bytes) -> bool:
        self.is_asked.set()
        return Event().wait()


def test_no_process_waits_at_its_end_for_an_archive_that_hangs(engine: Engine, home: Path) -> None:
    engine.finish(PLAIN, prompt="Ada")
    engine.clock.move(AFTER_S)

    def serve() -> None:
        objects = Hanging(str(home))
        archiver = Archiver(engine.store, Archive(objects, ArchiveKey(None)))
        archiver.own(ALL_PARTITIONS)
        archiver.start()
        objects.is_asked.wait()
        archiver.stop()

    process = get_context("fork").Process(target=serve)
    process.start()
    try:
        wait_until(lambda: process.exitcode is not None, "the process ends", 30)
    finally:
        process.kill()

    assert process.exitcode == 0


@pytest.mark.parametrize("forged", [{"bytes": "x"}, {"context": '{"secrets": [["a"]]}'}])
def test_a_run_that_cannot_be_read_holds_up_no_other(
    engine: Engine, home: Path, forged: dict[str, str]
) -> None:
    bad, good = (engine.finish(PLAIN, prompt=name).run_id for name in ("Ada", "Bea"))
    engine.redis.hset(run_key("run", bad), mapping=forged)

    done = archive(engine)

    assert (done.archived, done.failed) == (1, 1)
    assert bad in done.reason
    assert engine.redis.hexists(run_key("run", good), "archived")


def archived(engine: Engine) -> int:
    return sum(
        engine.redis.hexists(run_key("run", run_id), "archived") for run_id in engine.newest_runs()
    )


def broken(home: Path) -> None:
    home.write_text("not a directory")


def mended(home: Path) -> None:
    home.unlink()


def test_a_run_outlives_its_retention_until_it_is_archived(engine: Engine, home: Path) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    broken(home)
    late_s = 2 * engine.store.settings.retention_s

    done = archive(engine, after_s=late_s)
    engine.tick()
    engine.tick()

    assert done.failed == 1
    assert engine.run(run.run_id) == run
    figures = ArchiveCounts(engine.redis, engine.store.clock).read()
    assert (figures.waiting, figures.failures) == (1, 1)
    assert str(home) in figures.reason
    assert figures.failing_since_ms == engine.clock.ms
    mended(home)
    assert archive(engine, after_s=60).archived == 1
    engine.clock.move(3600)
    engine.tick()
    assert engine.newest_runs() == []
    figures = ArchiveCounts(engine.redis, engine.store.clock).read()
    assert (figures.waiting, figures.late_s, figures.failing_since_ms) == (0, 0, None)


def test_what_waits_is_told_by_how_late_it_is(engine: Engine, home: Path) -> None:
    engine.finish(PLAIN, prompt="Ada")
    engine.clock.move(3600 + 90)

    assert ArchiveCounts(engine.redis, engine.store.clock).read().late_s == 90


def other_key(engine: Engine, home: Path) -> None:
    (home.parent / "archive.key").write_text("x" * 64)


def no_key(engine: Engine, home: Path) -> None:
    engine.configure(archive=str(home))


@pytest.mark.parametrize("change", [other_key, no_key])
def test_what_is_encrypted_needs_its_key(
    engine: Engine, home: Path, change: Callable[[Engine, Path], None]
) -> None:
    run = engine.finish(PLAIN, prompt="Ada")
    archive(engine)
    (file,) = home.rglob("*.gz")
    assert file.read_bytes().startswith(b"sleipnir-aes256gcm-1\n")

    change(engine, home)

    with pytest.raises(SettingInvalid, match="archive_key_file"):
        engine.client.queries.run(run.run_id)
