"""The user's list of directories whose agents may have names that other agents have too."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.scheduler.config.trusted_agents import is_trusted, trust
from sleipnir.scheduler.errors import SettingInvalid


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLEIPNIR_CONFIG_DIR", str(tmp_path / "config"))
    return tmp_path / "config" / "trusted-agents"


def test_a_directory_is_trusted_with_everything_below(listed: Path, tmp_path: Path) -> None:
    trust(tmp_path / "work" / "agents")

    assert is_trusted(tmp_path / "work" / "agents" / "plan")
    assert is_trusted(tmp_path / "work" / "agents")
    assert not is_trusted(tmp_path / "work" / "agents2")
    assert not is_trusted(tmp_path / "work")


def test_what_is_trusted_is_not_listed_again(listed: Path, tmp_path: Path) -> None:
    listed.parent.mkdir()
    listed.write_text(f"# mine\n{tmp_path}/a")  # an editor left out the last line end

    for name in ("a", "a/b", "c", "c"):
        trust(tmp_path / name)

    assert listed.read_text() == f"# mine\n{tmp_path}/a\n{tmp_path}/c\n"


@pytest.mark.parametrize("name", ["x\n", "x\r", "x\n/y"])
def test_a_name_cannot_add_lines(listed: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)

    trust(tmp_path / name)

    assert not listed.exists()


@pytest.mark.parametrize("line", ["agents", ".", "", "#/", "//x/../.. "])
def test_only_absolute_paths_count(listed: Path, tmp_path: Path, line: str) -> None:
    listed.parent.mkdir()
    listed.write_text(f"{line}\n")

    assert not is_trusted(tmp_path / "agents")


def test_a_list_that_cannot_be_read_is_named(listed: Path, tmp_path: Path) -> None:
    listed.mkdir(parents=True)

    with pytest.raises(SettingInvalid, match="trusted-agents: it is a directory, not a file"):
        is_trusted(tmp_path)
