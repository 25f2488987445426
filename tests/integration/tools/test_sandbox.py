"""Programs that are cancelled: their whole process group ends, willing or not."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from sleipnir.worker.sandbox import child_process
from sleipnir.worker.sandbox.child_process import Finished, run_process
from sleipnir.worker.visit.cancellation import Cancellation
from tests.support.processes import is_alive
from tests.support.wait import wait_until


class Running:
    """A program in the background that notes its pid in `pid` once it is set up."""

    def __init__(self, directory: Path, script: str) -> None:
        self._directory = directory
        self._script = script
        self.cancellation = Cancellation()
        self.finished: Finished | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        wait_until(lambda: self._note().exists() and self._note().read_text(), "it runs")
        self.pid = int(self._note().read_text())

    def _note(self) -> Path:
        return self._directory / "pid"

    def _run(self) -> None:
        self.finished = run_process(
            ["bash", "-c", self._script],
            environment={"PATH": os.environ["PATH"]},
            workdir=self._directory,
            timeout_s=60,
            output_limit_bytes=1_000,
            cancellation=self.cancellation,
        )

    def result(self) -> Finished:
        self._thread.join(20)
        assert self.finished is not None
        return self.finished


def test_cancelling_ends_a_program_with_sigterm(tmp_path: Path) -> None:
    running = Running(tmp_path, "trap 'echo bye; exit 3' TERM; echo $$ > pid; sleep 60 & wait")

    running.cancellation.set()

    assert running.result() == Finished(3, b"bye\n", b"")


def test_cancelling_kills_a_program_that_ignores_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "GRACE_S", 0.05)
    running = Running(tmp_path, "trap '' TERM; echo $$ > pid; while :; do sleep 60; done")

    running.cancellation.set()

    assert running.result().returncode == -9


def test_cancelling_kills_a_grandchild_that_ignores_sigterm(tmp_path: Path) -> None:
    running = Running(tmp_path, "(trap '' TERM; echo $BASHPID > pid; exec sleep 60) & wait")

    running.cancellation.set()

    assert running.result().returncode == -15
    wait_until(lambda: not is_alive(running.pid), "the grandchild is gone")


def test_what_was_cancelled_before_it_began_ends_at_once(tmp_path: Path) -> None:
    cancellation = Cancellation()
    cancellation.set()

    finished = run_process(
        ["sleep", "60"],
        environment={"PATH": os.environ["PATH"]},
        workdir=tmp_path,
        timeout_s=60,
        output_limit_bytes=1_000,
        cancellation=cancellation,
    )

    assert finished.returncode == -15
    assert not finished.timed_out


def test_a_program_ends_when_nobody_can_take_what_it_prints(tmp_path: Path) -> None:
    def refuse(_chunk: bytes) -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        run_process(
            ["bash", "-c", "echo $$ > pid; echo line; sleep 60"],
            environment={"PATH": os.environ["PATH"]},
            workdir=tmp_path,
            timeout_s=None,
            output_limit_bytes=1_000,
            cancellation=Cancellation(),
            on_stdout=refuse,
        )

    assert not is_alive(int((tmp_path / "pid").read_text()))
