"""Shipped tools that look at a repository run no program that the repository names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sleipnir.graphs.functions.lib.sleipnir import git, read_only
from tests.support.git_repository import GitRepository
from tests.support.shipped import own_tool

COMMANDS = (
    *("status", "status --porcelain -v", "diff", "diff HEAD~1 HEAD", "diff --cached"),
    *("log -p -3", "log --format=%GS", "log --show-signature", "show", "show HEAD:data.bin"),
    *("blame data.bin", "grep -n one", "diff-tree -p HEAD", "describe --always --dirty"),
    *("ls-files -m", "cat-file --filters HEAD:data.bin", "shortlog HEAD", "rev-list --all"),
)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitRepository:
    """A repository that names a program in every way it can, each with a mark of its own."""
    inner = GitRepository(tmp_path / "inner")
    inner.commit({"file": "one\n"})
    repository = GitRepository(tmp_path / "project")
    adds = ("submodule", "add", "-q", str(inner.directory))
    repository.git("-c", "protocol.file.allow=always", *adds)
    for text in ("one\n", "one\ntwo\n"):
        repository.commit({"data.bin": text, ".gitattributes": "*.bin filter=f diff=d\n"})
    marks = tmp_path / "marks"
    marks.mkdir()

    def program(name: str) -> str:
        file = tmp_path / f"{name}.sh"
        file.write_text(f'#!/bin/sh\ntouch "{marks}/{name}"\nexit 1\n')
        file.chmod(0o755)
        return str(file)

    for key in (
        *("core.fsmonitor", "diff.external", "diff.d.command", "diff.d.textconv"),
        *("filter.f.clean", "filter.f.smudge", "filter.f.process", "gpg.program"),
        *("core.pager", "pager.log", "pager.diff", "core.sshCommand", "core.editor"),
        *("interactive.diffFilter", "alias.status"),
    ):
        repository.git("config", key, program(key))
    repository.git("config", "filter.f.required", "true")
    repository.git("config", "log.showSignature", "true")
    repository.git("config", "diff.submodule", "log")
    repository.git("-C", "inner", "config", "core.fsmonitor", program("submodule"))
    hooks = repository.directory / ".git" / "hooks"
    (hooks / "post-index-change").symlink_to(program("hook"))
    (repository.directory / ".git" / "info" / "attributes").write_text("* diff=d filter=f\n")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / ".gitconfig").write_text(f"[core]\n\tfsmonitor = {program('user')}\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", program("variable"))
    repository.write({"data.bin": "one\ntwo\nthree\n", "inner/file": "two\n"})
    return repository


def marks(repository: GitRepository) -> set[str]:
    return {each.name for each in (repository.directory.parent / "marks").iterdir()}


def test_without_care_the_repository_runs_programs(hostile: GitRepository) -> None:
    for command in ("status", "diff"):
        subprocess.run(["git", *command.split()], cwd=hostile.directory, capture_output=True)

    assert {"core.fsmonitor", "filter.f.process"} <= marks(hostile)


def test_looking_runs_no_program(hostile: GitRepository) -> None:
    for command in COMMANDS:
        assert read_only.why_not(f"git {command}") is None
        done = git.look(command.split(), hostile.directory)
        assert (done.returncode, done.stderr) == (0, b""), command

    assert marks(hostile) == set()
    assert b"+three" in git.look(["diff"], hostile.directory).stdout


@pytest.mark.parametrize(
    "option", ["--submodule=log", "--ignore-submodules=none", "--textconv", "--ext-diff"]
)
def test_options_that_bring_programs_back_are_refused(option: str) -> None:
    assert read_only.why_not(f"git diff {option}") is not None


def test_oracle_and_the_reviewer_run_no_program(hostile: GitRepository) -> None:
    line = " && ".join(f"git {command}" for command in COMMANDS)

    told = own_tool("oracle", "run_analysis", {"command": line}, hostile.directory)
    changed = own_tool("code-reviewer", "changed_files", {}, hostile.directory)
    own_tool("code-reviewer", "get_diff", {}, hostile.directory)

    assert str(told).endswith("OK")
    assert [each["file"] for each in changed["files"]] == ["data.bin"]
    assert marks(hostile) == set()
