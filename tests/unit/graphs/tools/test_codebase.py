"""What agents read and run in a project: sizes and times are bounded."""

from __future__ import annotations

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from sleipnir.graphs.functions.lib.sleipnir import codebase


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LLM_AGENT_VAR_PROJECT_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("memory")
def test_of_what_a_command_prints_the_end_is_kept() -> None:
    told = codebase.run("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo broken; exit 3")

    first, note, rest = told.split("\n", 2)
    assert (first[:2], note) == ("$ ", "(beginning left out)")
    assert rest.endswith("x\nbroken\nFAILED with exit status 3")
    assert len(rest) < codebase.MAX_OUTPUT + 100
    _, most = tracemalloc.get_traced_memory()
    assert most < 2_000_000


def test_a_command_that_hangs_is_stopped_whatever_it_has_started(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codebase, "COMMAND_S", 0.2)
    os.mkfifo(project / "fifo")

    # What it has started holds its output, and waits for us.
    told = codebase.run("echo begun; cat fifo; true")

    (project / "fifo").write_text("go on")
    assert told == "$ echo begun; cat fifo; true\nbegun\nSTOPPED after 0.2 seconds"


def test_a_file_of_one_line_is_not_read_whole(project: Path) -> None:
    with (project / "data.txt").open("w") as file:
        for _ in range(20):
            file.write("needle " * 150_000)
        file.write("\nthe end")
    tracemalloc.start()

    found = codebase.search("^needle|end$")
    shown = codebase.read("data.txt", limit=1)

    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [line.split(":")[:2] for line in found.splitlines()] == [
        *(["data.txt", "1"], ["data.txt", "2"])
    ]
    assert shown.startswith("1: needle needle")
    assert shown.endswith("\n(There is more: go on with offset=2.)")
    assert codebase.read("data.txt", offset=2) == "2: the end"
    assert most < 10_000_000
