"""Temporary directories: what a killed process left is removed by the next one, nothing else is."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sleipnir.scheduler.process.temporary import OwnDirectory, keep_temporary_files, scratch
from tests.support.mcp import ROOT

LIVES = """
import sys
from sleipnir.scheduler.process.temporary import OwnDirectory
own = OwnDirectory()
(own.path / "sealed").mkdir()
(own.path / "sealed" / "file").touch()
(own.path / "sealed").chmod(0o500)
print(own.path, flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files are made."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def other_process() -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", LIVES],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_process_left_is_removed(place: Path) -> None:
    (place / "sleipnir-0-0123456789abcdef").mkdir()  # of an engine's sockets
    process, left = other_process()
    with process:
        with OwnDirectory():
            assert left.is_dir()
        process.kill()
    assert left.is_dir()

    with OwnDirectory() as own:
        assert own.path.is_dir()
        assert not left.exists()

    assert [entry.name for entry in place.iterdir()] == ["sleipnir-0-0123456789abcdef"]


def test_all_temporary_files_of_a_worker_lie_in_one_place(place: Path) -> None:
    own = keep_temporary_files()

    with scratch("call") as made:
        assert Path(made).parent == own.path
    shutil.rmtree(own.path)  # as a cleaner may do
    with scratch("call") as made:
        assert Path(made).parent == place
    own.close()

    assert list(place.iterdir()) == []
