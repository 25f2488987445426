"""What the embedded engine has accepted is on disk, or somebody is told."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.embedded.acceptances import Acceptances
from sleipnir.scheduler.embedded.append_only import sync, unwritten
from sleipnir.scheduler.embedded.attach import attach
from sleipnir.scheduler.embedded.place import Place
from sleipnir.scheduler.embedded.redis_server import PrivateRedis
from sleipnir.scheduler.embedded.supervisor import die_with_parent
from sleipnir.scheduler.errors import NotKept
from sleipnir.scheduler.store.connection import connect
from sleipnir.scheduler.store.dispatch import DirectDispatcher
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.store.run_store import RunStore
from tests.support import full_disk
from tests.support.command_line import Sleipnir
from tests.support.processes import is_alive
from tests.support.redis_server import RedisServer
from tests.support.runs import RUN, a_run
from tests.support.wait import wait_until

SETTINGS = Settings()
ANOTHER = "02" + RUN[2:]
UP = """
import sys
from pathlib import Path
from sleipnir.scheduler.embedded.attach import run_foreground
from sleipnir.scheduler.config.settings import Settings
def companions(engine):
    print(engine.redis_url, flush=True)
    return []
run_foreground(Path(sys.argv[1]), Settings(), companions=companions)
"""
ENDS = """
    start: z
    nodes:
      z: {type: end, output: well}
    """


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of an engine whose disk can be full."""
    full_disk.use_limitable_server(tmp_path, monkeypatch)
    return tmp_path / "data"


class Accepting:
    """Accepts runs in the Redis of an engine, as commands do."""

    def __init__(self, data_dir: Path, url: str) -> None:
        self.client = connect(url)
        self.pid = int(self.client.info("server")["process_id"])
        self._store = RunStore(self.client, SETTINGS, DirectDispatcher())
        self._acceptances = Acceptances.of(data_dir, url, SETTINGS.retention_s)

    def submit(self, run_id: str) -> None:
        self._store.runs.submit(a_run(run_id))
        self._acceptances.keep([run_id], self._store.clock.now_ms)


def submitted(data_dir: Path) -> list[str]:
    """The runs that the next engine of a data directory finds."""
    with attach(data_dir, SETTINGS, workers=False) as engine, connect(engine.redis_url) as client:
        page = RunQueries(client).list_runs(RunFilter(), 10)
        return sorted(row.run_id for row in page.entries)


def test_an_engine_whose_disk_is_full_refuses_runs_and_does_not_end(
    data_dir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with attach(data_dir, SETTINGS, workers=False) as engine:
        accepting = Accepting(data_dir, engine.redis_url)
        full_disk.fill(accepting.pid)

        with pytest.raises(NotKept, match=r"cannot write its data in .*: Errors writing"):
            accepting.submit(RUN)

    assert f"the engine (pid {engine.pid}) cannot stop yet" in capfd.readouterr().err
    assert is_alive(engine.pid)
    full_disk.free(accepting.pid)
    wait_until(lambda: not is_alive(engine.pid), "the engine ends", 60)
    assert submitted(data_dir) == [RUN]


def test_an_engine_that_waits_for_its_disk_can_be_joined(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=False) as engine:
        accepting = Accepting(data_dir, engine.redis_url)
        full_disk.fill(accepting.pid)
        with pytest.raises(NotKept):
            accepting.submit(RUN)

    with attach(data_dir, SETTINGS, workers=False) as joined:
        full_disk.free(accepting.pid)
        server = PrivateRedis.at(Place(data_dir).redis_directory, joined.redis_url)
        wait_until(lambda: unwritten(server) is None, "Redis writes again", 60)
        accepting.submit(ANOTHER)

    wait_until(lambda: not is_alive(engine.pid), "the engine ends", 60)
    assert joined.pid == engine.pid
    assert submitted(data_dir) == [RUN, ANOTHER]


def test_who_insists_stops_it_and_the_loss_is_noted(data_dir: Path) -> None:
    program = [sys.executable, "-c", UP, str(data_dir)]
    with subprocess.Popen(
        program,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent(signal.SIGKILL),
    ) as up:
        assert up.stdout is not None
        assert up.stderr is not None
        accepting = Accepting(data_dir, up.stdout.readline().strip())
        accepting.submit(RUN)
        full_disk.fill(accepting.pid)
        with pytest.raises(NotKept):
            accepting.submit(ANOTHER)

        up.terminate()
        told = next(line for line in up.stderr if "cannot stop yet" in line)
        assert is_alive(accepting.pid)
        up.terminate()
        assert up.wait(60) == 0

    assert "Errors writing to the AOF file" in told
    assert "Errors writing to the AOF file" in Place(data_dir).loss_note.read_text()
    assert submitted(data_dir) == [RUN]


def test_what_is_synced_is_in_the_files_that_were_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    with RedisServer(tmp_path / "redis") as server, connect(server.url) as client:
        client.set("before", "x")
        client.bgrewriteaof()
        wait_until(
            lambda: not client.info("persistence")["aof_rewrite_in_progress"], "it is rewritten", 60
        )
        client.set("told-apart", "x")
        monkeypatch.setattr("os.fsync", lambda fd: synced.add(inode_of(fd)))

        sync(PrivateRedis.at(tmp_path / "redis", server.url))

        files = [file for file in (tmp_path / "redis").rglob("*") if file.stat().st_ino in synced]
        assert any(file.is_file() and b"told-apart" in file.read_bytes() for file in files)
        assert any(file.is_dir() for file in files)


def inode_of(descriptor: int) -> int:
    return Path(f"/proc/self/fd/{descriptor}").stat().st_ino


def test_a_server_that_is_gone_has_nothing_unwritten(tmp_path: Path) -> None:
    assert unwritten(PrivateRedis(tmp_path, tmp_path / "redis.sock")) is None


# ---- what is noted


@pytest.fixture
def noted(tmp_path: Path) -> Acceptances:
    """Two runs that were noted at 1,000 and 2,000 ms, and are kept for 10 s."""
    (tmp_path / "accepted").write_text("ab01 1000\nac02 2000\n")
    return Acceptances(tmp_path, PrivateRedis(tmp_path, tmp_path / "redis.sock"), 10_000)


def test_a_noted_run_is_lost_until_it_may_have_expired(noted: Acceptances) -> None:
    assert "was deleted or replaced" in str(noted.lost("ab", 10_999))
    assert noted.lost("ab01", 11_000) is None
    assert noted.lost("ad", 5_000) is None
    assert noted.lost("", 10_999) is None


def test_notes_go_when_retention_is_over_and_not_before(noted: Acceptances) -> None:
    # The second is not over yet: it is noted anew.
    noted.tidy(lambda run_ids: [{"ab01": -2, "ac02": -1}[run_id] for run_id in run_ids], 15_000)

    assert (noted.data_dir / "accepted").read_text() == "ac02 15000\n"


def test_what_was_removed_on_purpose_is_not_lost(noted: Acceptances) -> None:
    noted.forget(["ab01"])

    assert noted.lost("ab01", 10_999) is None


def test_a_run_that_is_over_is_noted_for_as_long_as_redis_keeps_it(noted: Acceptances) -> None:
    noted.tidy(lambda run_ids: [500 for _ in run_ids], 15_000)

    assert noted.lost("ab01", 15_400) is not None
    assert noted.lost("ab01", 15_600) is None


def test_a_line_that_was_cut_off_is_no_note(noted: Acceptances) -> None:
    with (noted.data_dir / "accepted").open("a") as file:
        file.write("ad03 30")

    assert noted.lost("ad03", 3_000) is None


def test_a_run_that_was_accepted_and_is_gone_is_no_usage_error(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("ends", ENDS)
    run_id = sleipnir("submit", "ends").stdout.strip()
    data = tmp_path / "data" / "redis"
    data.rename(tmp_path / "elsewhere")

    gone = sleipnir("show", run_id[:6])
    unknown = sleipnir("cancel", "0" * 16)

    assert gone.returncode == 7
    assert f"run {run_id} was accepted here and is lost: the data of Redis in {data}" in gone.stderr
    assert "Traceback" not in gone.stderr
    assert unknown.returncode == 2


def test_the_runs_of_a_batch_are_kept_with_few_syncs(tmp_path: Path) -> None:
    sleipnir = Sleipnir(tmp_path)
    sleipnir.write("ends", ENDS)
    lines = "".join(f"line {number}\n" for number in range(200))

    done = sleipnir("batch", "ends", "-", "--format", "txt", "--detach", stdin=lines)

    assert done.returncode == 0
    instants = [line.split()[1] for line in (tmp_path / "data/accepted").read_text().splitlines()]
    assert len(instants) == 200
    assert len(set(instants)) <= 100
