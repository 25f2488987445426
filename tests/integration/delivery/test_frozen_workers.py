"""A worker whose interpreter stands still is as dead as one that died."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis

from sleipnir.scheduler.embedded import watchdog
from tests.support.fleet import SETTINGS
from tests.support.invariants import assert_consistent
from tests.support.processes import is_alive
from tests.support.wait import wait_until
from tests.support.workers import Workers

GRAPH = """
start: s
nodes:
  s: {type: script, script: s.sh, next: z}
  z: {type: end, output: done}
"""
MAX_WAIT_S = 120
SILENCE_S = 1.0


@contextmanager
def watched(*signals: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
    """A process that shows no sign of life, got the signals, and has a watchdog."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    for number in signals:
        process.send_signal(number)
    theirs, ours = os.pipe()
    dog = subprocess.Popen(
        [sys.executable, watchdog.__file__, str(process.pid), str(SILENCE_S), "NOBODY=1"],
        stdin=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    try:
        yield process
    finally:
        os.close(ours)
        process.kill()
        process.communicate()
        assert dog.wait(MAX_WAIT_S) == 0


def test_a_silent_process_is_killed() -> None:
    with watched() as process:
        assert process.wait(MAX_WAIT_S) == -signal.SIGKILL


def test_one_that_somebody_stopped_may_be_silent_until_it_goes_on() -> None:
    with watched(signal.SIGSTOP) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(SILENCE_S + 2 * watchdog.BEAT_S)
        process.send_signal(signal.SIGCONT)

        assert process.wait(MAX_WAIT_S) == -signal.SIGKILL


def test_a_machine_that_stood_still_kills_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """As seen by a watchdog: an hour passes during one look, and then there are signs of life."""
    beats, life = os.pipe()
    passed = itertools.chain([[], [], [beats]] * 2, [None])

    def look(*_: object) -> tuple[list[int], list[int], list[int]]:
        readable = next(passed)
        if readable is None:  # its process has ended
            os.close(life)
            return [beats], [], []
        if readable:
            os.write(life, b".")
        return readable, [], []

    monkeypatch.setattr(watchdog.select, "select", look)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert watchdog.watch(process.pid, 3 * watchdog.BEAT_S, beats)
        assert process.poll() is None
    os.close(beats)


def test_a_frozen_worker_is_killed_and_its_visits_are_taken_over(
    workers: Workers, redis_client: redis.Redis
) -> None:
    frozen = workers.start(**SETTINGS, failpoint="amid.execute:freeze:1")
    run_ids = [workers.submit(GRAPH, {"s.sh": "sleep 0.3; echo {}"}) for _ in range(3)]
    code = frozen.exit_code(MAX_WAIT_S)
    workers.start("--scheduler", **SETTINGS)

    statuses = {str(workers.client.wait(run_id).status) for run_id in run_ids}

    assert code == -signal.SIGKILL
    assert "did not respond" in frozen.log.read_text()
    assert statuses == {"succeeded"}
    assert_consistent(redis_client, runs=3)


def watchdog_of(pid: int) -> int | None:
    """The process that watches another one."""
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = file.read_bytes().split(b"\0")
            if words[3:5] == [watchdog.__file__.encode(), str(pid).encode()]:
                return int(file.parent.name)
    return None


def test_a_watchdog_that_was_killed_is_replaced_and_it_ends_with_its_worker(
    workers: Workers,
) -> None:
    worker = workers.start(**SETTINGS)
    first = wait_until(lambda: watchdog_of(worker.pid), "there is one", MAX_WAIT_S)

    os.kill(first, signal.SIGKILL)
    wait_until(lambda: not is_alive(first), "it is gone", MAX_WAIT_S)
    second = wait_until(lambda: watchdog_of(worker.pid), "there is another one", MAX_WAIT_S)
    worker.terminate()
    worker.exit_code(MAX_WAIT_S)

    wait_until(lambda: not is_alive(second), "it has ended as well", MAX_WAIT_S)
