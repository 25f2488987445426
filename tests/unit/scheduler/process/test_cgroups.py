"""What control groups allow a process."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sleipnir.scheduler.cli.verbs.worker import worker
from sleipnir.scheduler.doctor.diagnosis import thread_memory
from sleipnir.scheduler.process.cgroups import cores, memory_limit_bytes


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """The file that names the group `team/worker`, below the root `groups`."""
    (tmp_path / "groups" / "team" / "worker").mkdir(parents=True)
    (tmp_path / "own").write_text("0::/team/worker\n")
    return tmp_path / "own"


def write(own: Path, group: str, name: str, text: str) -> None:
    (own.parent / "groups" / group / name).write_text(f"{text}\n")


def test_the_least_of_all_groups_counts(own: Path) -> None:
    groups = own.parent / "groups"
    everything = cores(groups, own)
    for group, share, memory in (("team", "50000", "1000"), ("team/worker", "200000", "3000")):
        write(own, group, "cpu.max", f"{share} 100000")
        write(own, group, "memory.max", memory)

    assert everything >= 1
    assert cores(groups, own) == 1
    assert memory_limit_bytes(groups, own) == 1000


def test_parts_of_cores_are_rounded_up(own: Path) -> None:
    write(own, "team/worker", "cpu.max", "110000 100000")

    assert cores(own.parent / "groups", own) == min(2, cores(own.parent, own.parent / "none"))


@pytest.mark.parametrize("text", ["0::/\n", "1:name=systemd:/\n", ""])
def test_without_limits_there_is_none(own: Path, text: str) -> None:
    own.write_text(text)
    write(own, "team/worker", "memory.max", "max")

    assert memory_limit_bytes(own.parent / "groups", own) is None


def test_too_little_memory_for_the_threads_is_warned_of() -> None:
    (check,) = thread_memory(32, 128 * 2**20)

    assert check.state == "warning"
    assert "may need 256 MiB, and 128 MiB are allowed" in check.text
    assert list(thread_memory(32, None)) == []
    assert list(thread_memory(32, 2**30)) == []


def test_a_number_of_processes_is_one_or_auto() -> None:
    found = CliRunner().invoke(worker, ["--processes", "many"])

    assert found.exit_code == 2
    assert "'many' is not a valid" in found.output
