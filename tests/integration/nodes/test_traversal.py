"""Relative paths of file tools stay in the working directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.global_tools import GlobalTools


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("fs_cat", {"path": "../secret"}),
        ("fs_read", {"path": "sub/../../secret"}),
        ("fs_ls", {"path": ".."}),
        ("fs_grep", {"pattern": "x", "path": ".."}),
        ("fs_glob", {"pattern": "*", "path": "../"}),
        ("fs_glob", {"pattern": "../*"}),
    ],
)
def test_a_reader_does_not_climb_out_of_the_working_directory(
    tmp_path: Path, name: str, arguments: dict[str, str]
) -> None:
    tools = GlobalTools(tmp_path)
    (tools.workdir / "sub").mkdir()
    (tools.workdir.parent / "secret").write_text("x")

    said = tools.failure(name, arguments)

    assert said.startswith("refused: ")
    assert "leads out of the working directory" in said
