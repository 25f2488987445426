"""The embedded engine under real commands: who starts it, who keeps it, what survives what."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

import sleipnir
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.embedded.attach import Engine, attach
from sleipnir.scheduler.embedded.directory_format import require_format_of
from sleipnir.scheduler.embedded.place import Place, lock
from sleipnir.scheduler.embedded.process import LOG_BYTES
from sleipnir.scheduler.embedded.redis_server import PrivateRedis, socket_directory
from sleipnir.scheduler.embedded.supervisor import die_with_parent
from sleipnir.scheduler.errors import EngineUnreachable
from tests.support.processes import children_of, is_alive
from tests.support.wait import wait_until

SETTINGS = Settings()

# Has its own worker, and everything else from where this process has it.
PACKAGE = """
__path__.append({real!r})
"""
# Stands where the worker's package would be: notes its life, and ends when told to.
WORKER = """
import json, os, pathlib, signal, sys

def end(*_):
    if "FAREWELL" in os.environ:
        open(os.environ["FAREWELL"]).read()  # a pipe: drained once somebody writes
    sys.exit()

signal.signal(signal.SIGTERM, end)
note = {"arguments": sys.argv[1:], "key": os.environ.get("SOME_API_KEY")}
file = pathlib.Path(os.environ["NOTES"], str(os.getpid()))
file.with_suffix(".part").write_text(json.dumps(note))
file.with_suffix(".part").rename(file)
while True:
    signal.pause()
"""

# Commands of their own process: they print the engine's pid and stay until their input ends.
USE = """
import sys
from pathlib import Path
from sleipnir.scheduler.embedded.attach import attach
from sleipnir.scheduler.config.settings import Settings
with attach(Path(sys.argv[1]), Settings(), workers=sys.argv[2] == "workers") as engine:
    print(engine.pid, flush=True)
    sys.stdin.read()
"""
UP = """
import os, sys
from pathlib import Path
from sleipnir.scheduler.embedded.attach import run_foreground
from sleipnir.scheduler.config.settings import Settings
def companions(engine):
    print(engine.pid, flush=True)
    return []
run_foreground(Path(sys.argv[1]), Settings(), companions=companions)
"""


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the workers of a test note their lives, by pid."""
    package = tmp_path / "packages" / "sleipnir"
    worker = package / "worker"
    worker.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE.format(real=str(Path(sleipnir.__file__).parent)))
    (worker / "__init__.py").touch()
    (worker / "__main__.py").write_text(WORKER)
    directory = tmp_path / "notes"
    directory.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    monkeypatch.setenv("NOTES", str(directory))
    return directory


@pytest.fixture(autouse=True)
def _nothing_is_left(data_dir: Path) -> Iterator[None]:
    """After every test: no process of the engine, and no directory of sockets."""
    yield
    data_dir.mkdir(exist_ok=True)
    sockets = socket_directory(data_dir)
    wait_until(lambda: not list(sockets.iterdir()), "the engine's sockets are gone")
    sockets.rmdir()
    wait_until(lambda: not users_of(data_dir), "no process has the data directory open")


def users_of(data_dir: Path) -> set[int]:
    """Processes other than ours with an open file below the directory."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if any(link.readlink().is_relative_to(data_dir) for link in (process / "fd").iterdir()):
                found.add(int(process.name))
    return found - {os.getpid()}


def workers_in(notes: Path, count: int) -> list[int]:
    """The pids of `count` running workers."""

    def running() -> list[int]:
        pids = [int(note.name) for note in notes.iterdir() if not note.suffix]
        return [pid for pid in pids if is_alive(pid)]

    wait_until(lambda: len(running()) == count, f"{count} workers run")
    return running()


def redis_pid(engine: Engine) -> int:
    with redis.Redis.from_url(engine.redis_url) as client:
        return int(client.info("server")["process_id"])


def answers(engine: Engine) -> bool:
    with redis.Redis.from_url(engine.redis_url) as client:
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False


def wait_until_draining(data_dir: Path) -> None:
    control = socket_directory(data_dir) / "control.sock"
    wait_until(lambda: not control.exists(), "the engine drains")


@contextlib.contextmanager
def command(program: str, data_dir: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command in a process of its own; at the end it leaves."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(data_dir), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent(signal.SIGKILL),
    )
    with process:
        yield process


def engine_pid_told_by(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    return int(process.stdout.readline())


def test_reading_starts_redis_alone(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=False) as engine:
        children = children_of(engine.pid)

        assert children == {redis_pid(engine)}


def test_nothing_runs_once_the_last_command_has_left(data_dir: Path, notes: Path) -> None:
    with attach(data_dir, SETTINGS, workers=True) as engine:
        pids = {engine.pid, redis_pid(engine), *workers_in(notes, 1)}

    wait_until(lambda: not users_of(data_dir), "nobody uses the data")
    wait_until(lambda: not any(map(is_alive, pids)), "all have ended")


def test_data_survives_between_commands(data_dir: Path) -> None:
    with (
        attach(data_dir, SETTINGS, workers=False) as engine,
        redis.Redis.from_url(engine.redis_url) as client,
    ):
        client.set("k", "v")

    with (
        attach(data_dir, SETTINGS, workers=False) as engine,
        redis.Redis.from_url(engine.redis_url) as client,
    ):
        value = client.get("k")

    assert value == b"v"


def test_a_command_that_leaves_keeps_the_engine_for_the_others(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=False) as engine:
        with attach(data_dir, SETTINGS, workers=False) as shared:
            pass

        assert shared == engine
        assert answers(engine)


def test_sockets_that_somebody_removed_come_back(data_dir: Path) -> None:
    with (
        attach(data_dir, SETTINGS, workers=False) as engine,
        redis.Redis.from_url(engine.redis_url) as client,
    ):
        client.set("k", "v")
        shutil.rmtree(socket_directory(data_dir))

        with attach(data_dir, SETTINGS, workers=False) as joined:
            wait_until(lambda: answers(engine), "Redis answers again", 60)
            value = client.get("k")

    assert joined == engine
    assert value == b"v"


def test_commands_that_start_together_share_one_engine(data_dir: Path) -> None:
    with contextlib.ExitStack() as stack:
        commands = [stack.enter_context(command(USE, data_dir, "reads")) for _ in range(4)]

        pids = {engine_pid_told_by(process) for process in commands}

        assert len(pids) == 1


def test_a_killed_command_counts_as_gone(data_dir: Path, notes: Path) -> None:
    with command(USE, data_dir, "workers") as process:
        engine_pid = engine_pid_told_by(process)
        pids = {engine_pid, *workers_in(notes, 1), *children_of(engine_pid)}

        process.kill()

        wait_until(lambda: not any(map(is_alive, pids)), "all have ended")


def test_ctrl_c_in_a_command_does_not_reach_the_engine(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=True) as engine:
        groups = {os.getpgid(pid) for pid in (engine.pid, *children_of(engine.pid))}

        assert os.getpgrp() not in groups
        assert os.getsid(engine.pid) != os.getsid(0)


def test_workers_join_an_engine_that_had_none(
    data_dir: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attach(data_dir, SETTINGS, workers=False):
        monkeypatch.setenv("SOME_API_KEY", "of the command that needs workers")
        with attach(data_dir, SETTINGS, workers=True):
            (pid,) = workers_in(notes, 1)
            note = json.loads((notes / str(pid)).read_text())

    assert note["key"] == "of the command that needs workers"


def test_workers_are_started_once(data_dir: Path, notes: Path) -> None:
    with attach(data_dir, SETTINGS, workers=True):
        first = workers_in(notes, 1)

        with attach(data_dir, SETTINGS, workers=True):
            assert workers_in(notes, 1) == first


def test_one_of_the_workers_runs_the_scheduler(data_dir: Path, notes: Path) -> None:
    with attach(data_dir, SETTINGS, workers=True, processes=2) as engine:
        pids = workers_in(notes, 2)

        arguments = [json.loads((notes / str(pid)).read_text())["arguments"] for pid in pids]

    expected = ["--redis", engine.redis_url, "--concurrency", str(SETTINGS.concurrency)]
    expected.append("--quiet")
    assert sorted(arguments) == [expected, [*expected, "--scheduler"]]


def test_a_killed_worker_is_replaced(data_dir: Path, notes: Path) -> None:
    with attach(data_dir, SETTINGS, workers=True):
        (first,) = workers_in(notes, 1)

        os.kill(first, signal.SIGKILL)

        wait_until(lambda: not is_alive(first), "it is gone")
        assert workers_in(notes, 1) != [first]


def test_a_killed_redis_is_replaced_and_keeps_its_data(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=False) as engine:
        with redis.Redis.from_url(engine.redis_url) as client:
            client.set("k", "v")

        os.kill(redis_pid(engine), signal.SIGKILL)

        wait_until(lambda: answers(engine), "Redis is back")
        with redis.Redis.from_url(engine.redis_url) as client:
            assert client.get("k") == b"v"


def test_a_killed_engine_takes_its_children_along_and_comes_back(
    data_dir: Path, notes: Path
) -> None:
    with attach(data_dir, SETTINGS, workers=True) as engine:
        children = {redis_pid(engine), *workers_in(notes, 1)}
        with redis.Redis.from_url(engine.redis_url) as client:
            client.set("k", "v")

        os.kill(engine.pid, signal.SIGKILL)

        wait_until(lambda: not any(map(is_alive, children)), "its children are gone")
        wait_until(lambda: answers(engine), "another engine has taken over")
        assert len(workers_in(notes, 1)) == 1
        with redis.Redis.from_url(engine.redis_url) as client:
            assert client.get("k") == b"v"


def test_an_engine_that_is_told_to_stop_stays_down(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=False) as engine:
        os.kill(engine.pid, signal.SIGTERM)
        wait_until(lambda: not is_alive(engine.pid), "it has ended")

    wait_until(lambda: not users_of(data_dir), "nobody uses the data")
    assert json.loads((data_dir / "engine.lock").read_text())["pid"] == engine.pid


def test_the_server_of_a_killed_engine_ends_before_another_starts(data_dir: Path) -> None:
    directory = data_dir / "redis"
    directory.mkdir(parents=True)
    require_format_of(directory)
    leftover = PrivateRedis(directory, socket_directory(data_dir) / "redis.sock")
    data_lock = lock(data_dir / "redis.lock", wait=False)
    process = subprocess.Popen(
        leftover.command_line(leftover.find_program()),
        stdout=subprocess.DEVNULL,
        pass_fds=[data_lock],
    )
    os.close(data_lock)
    leftover.await_ready(process)
    with redis.Redis.from_url(leftover.url) as client:
        client.set("k", "v")

    with attach(data_dir, SETTINGS, workers=False) as engine:
        assert process.wait(timeout=90) == 0
        with redis.Redis.from_url(engine.redis_url) as client:
            assert client.get("k") == b"v"


def test_a_command_that_comes_while_the_engine_drains_gets_another(
    data_dir: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    farewell = data_dir.parent / "farewell"
    os.mkfifo(farewell)
    monkeypatch.setenv("FAREWELL", str(farewell))
    with command(USE, data_dir, "workers") as first:
        draining = engine_pid_told_by(first)
        workers_in(notes, 1)
        assert first.stdin is not None
        first.stdin.close()
        wait_until_draining(data_dir)

        with command(USE, data_dir, "reads") as second:
            farewell.write_text("go")

            assert engine_pid_told_by(second) != draining


def test_a_request_it_does_not_understand_is_refused_and_harms_nobody(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=False) as engine:
        _, control = Place(data_dir).recorded_engine() or pytest.fail("no engine on record")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(control))
            connection.sendall(b'{"from": "another version"}\n')
            answer = json.loads(connection.recv(4096))

        assert "unexpected keyword argument 'from'" in answer["failed"]
        assert answers(engine)


def test_a_failed_start_tells_what_redis_said(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=False):
        pass
    (manifest,) = (data_dir / "redis" / "appendonlydir").glob("*.manifest")
    manifest.write_text("garbage\n")

    with (
        pytest.raises(EngineUnreachable, match="ended with 1 while starting") as caught,
        attach(data_dir, SETTINGS, workers=False),
    ):
        pass

    assert f"{data_dir}/engine.log ends with:" in str(caught.value)
    assert "garbage" in str(caught.value)


def test_a_data_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    theirs = Path("/")
    if os.geteuid() == 0:
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        os.chown(theirs, 12345, -1)

    with (
        pytest.raises(EngineUnreachable, match="belongs to user id"),
        attach(theirs, SETTINGS, workers=False),
    ):
        pass


def test_a_data_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with (
        pytest.raises(EngineUnreachable, match="set SLEIPNIR_DATA_DIR"),
        attach(tmp_path / "file" / "data", SETTINGS, workers=False),
    ):
        pass


def test_what_it_keeps_is_for_its_user_alone(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=False):
        files = [data_dir, *data_dir.iterdir()]
        open_to_others = [file.name for file in files if file.stat().st_mode & 0o077]

    assert open_to_others == []


def test_up_serves_commands_until_ctrl_c(data_dir: Path, notes: Path) -> None:
    with command(UP, data_dir) as up:
        pid = engine_pid_told_by(up)
        with attach(data_dir, SETTINGS, workers=True) as engine:
            assert engine.pid == pid == up.pid
        pids = {*workers_in(notes, 1), *children_of(pid)}

        up.send_signal(signal.SIGINT)

        assert up.wait(timeout=90) == 0
        assert not any(map(is_alive, pids))


def test_commands_share_the_workers_of_up(data_dir: Path, notes: Path) -> None:
    with command(UP, data_dir) as up:
        engine_pid_told_by(up)
        own = workers_in(notes, 1)

        with attach(data_dir, SETTINGS, workers=True, processes=3):
            shared = children_of(up.pid)

        up.send_signal(signal.SIGINT)
        assert up.wait(timeout=90) == 0
        assert len(shared) == 2  # Redis and the worker
        assert shared >= set(own)


def test_a_second_ctrl_c_does_not_wait_for_workers(
    data_dir: Path, notes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    farewell = data_dir.parent / "farewell"
    os.mkfifo(farewell)
    monkeypatch.setenv("FAREWELL", str(farewell))
    with command(UP, data_dir) as up:
        engine_pid_told_by(up)
        (worker,) = workers_in(notes, 1)

        up.send_signal(signal.SIGINT)
        wait_until_draining(data_dir)
        up.send_signal(signal.SIGINT)

        assert up.wait(timeout=90) == 0
        assert not is_alive(worker)


def test_up_beside_another_engine_is_an_error_that_names_it(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=False) as engine, command(UP, data_dir) as up:
        _, errors = up.communicate(timeout=90)

    assert up.returncode == 1
    assert f"an engine (pid {engine.pid}) is already running in {data_dir}" in errors


def test_an_engine_whose_data_directory_was_removed_says_so_and_stops(
    data_dir: Path, notes: Path
) -> None:
    with command(UP, data_dir) as up:
        engine_pid_told_by(up)
        pids = {*workers_in(notes, 1), *children_of(up.pid)}

        shutil.rmtree(data_dir)

        _, errors = up.communicate(timeout=90)
        assert up.returncode == 1
        assert (
            f"the data directory {data_dir} was removed or replaced; what it held is lost" in errors
        )
        assert not any(map(is_alive, pids))


def test_a_log_that_grows_is_put_aside_and_goes_on(data_dir: Path) -> None:
    with attach(data_dir, SETTINGS, workers=False) as engine:
        with engine.log_file.open("a") as log:
            log.write("x" * LOG_BYTES + "the end\n")
            log.flush()
            wait_until(lambda: engine.log_file.stat().st_size == 0, "the log is put aside", 60)
            log.write("more\n")

        aside = engine.log_file.with_name("engine.log.1")
        assert aside.stat().st_size == LOG_BYTES
        assert aside.read_text().endswith("xthe end\n")
        assert aside.stat().st_mode & 0o777 == 0o600
        assert engine.log_file.read_text() == "more\n"
