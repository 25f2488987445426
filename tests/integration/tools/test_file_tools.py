"""The shipped tools for files, called as processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sleipnir.worker.tools.call import NeedsConfirmation
from tests.support.global_tools import GlobalTools, shipped


@pytest.fixture
def tools(tmp_path: Path) -> GlobalTools:
    return GlobalTools(tmp_path)


@pytest.fixture
def workdir(tools: GlobalTools) -> Path:
    return tools.workdir


# ---- reading


def test_cat_shows_a_file_and_says_when_there_is_nothing_to_show(
    tools: GlobalTools, workdir: Path
) -> None:
    (workdir / "full").write_text("one\ntwo\n")
    (workdir / "empty").touch()

    assert tools.text("fs_cat", {"path": "full"}) == "one\ntwo\n"
    assert tools.text("fs_cat", {"path": "empty"}) == "The file is empty: empty"
    assert tools.text("fs_cat", {"path": "missing"}) == "No such file: missing"


def test_read_numbers_lines_and_says_how_to_go_on(tools: GlobalTools, workdir: Path) -> None:
    (workdir / "file").write_text("one\ntwo\nthree\nfour\n")

    part = tools.text("fs_read", {"path": "file", "offset": 2, "limit": 2})

    assert part == "2: two\n3: three\n(There is more: go on with offset=4.)"


def test_read_warns_of_a_large_file_and_cuts_long_lines(tools: GlobalTools, workdir: Path) -> None:
    (workdir / "file").write_text("x" * 60_000 + "\nend\n")

    first, line, end = tools.text("fs_read", {"path": "file"}).split("\n")

    assert first.startswith("(Large file, 58 KiB:")
    assert line == "1: " + "x" * 2000 + "… (line cut)"
    assert end == "2: end"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"path": "."}, "This is a directory; its entries:\nempty\nfile\nsub/"),
        ({"path": "empty"}, "empty is empty"),
        ({"path": "file", "offset": 9}, "file has fewer than 9 lines"),
    ],
)
def test_read_says_what_there_is_instead_of_lines(
    tools: GlobalTools, workdir: Path, arguments: dict[str, Any], text: str
) -> None:
    (workdir / "sub").mkdir()
    (workdir / "empty").touch()
    (workdir / "file").write_text("one\n")

    assert tools.text("fs_read", arguments) == text


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"path": "missing"}, "cannot read missing: No such file or directory"),
        ({"path": "binary"}, "binary is not a text file (3 bytes)"),
        ({"path": "binary", "offset": 0}, "offset and limit count from 1"),
        ({"path": ""}, "the path is empty"),
        ({"path": "/dev/zero"}, "/dev/zero is neither a file nor a directory"),
    ],
)
def test_read_fails_where_there_is_no_text(
    tools: GlobalTools, workdir: Path, arguments: dict[str, Any], reason: str
) -> None:
    (workdir / "binary").write_bytes(b"a\0b")

    assert tools.failure("fs_read", arguments) == reason


def test_ls_lists_a_directory(tools: GlobalTools, workdir: Path) -> None:
    (workdir / "sub").mkdir()
    (workdir / "file").touch()

    assert tools.text("fs_ls", {"path": "."}) == "file\nsub/"
    assert tools.text("fs_ls", {"path": "sub"}) == "The directory is empty: sub"
    assert tools.failure("fs_ls", {"path": "no"}) == "cannot list no: No such file or directory"


# ---- searching


def test_glob_finds_the_newest_files_first(tools: GlobalTools, workdir: Path) -> None:
    make(workdir, "old.py", "src/new.py", "src/other.txt", "node_modules/x.py", "dist/y.py")
    os.utime(workdir / "old.py", (1, 1))

    assert tools.text("fs_glob", {"pattern": "*.py"}) == "src/new.py\nold.py"
    assert tools.text("fs_glob", {"pattern": "src/*.{py,md}"}) == "src/new.py"
    assert tools.text("fs_glob", {"pattern": "dist/*.py"}) == "dist/y.py"
    assert tools.text("fs_glob", {"pattern": "*.py", "path": "src"}) == "src/new.py"
    assert tools.text("fs_glob", {"pattern": "*.go"}) == "No file matches *.go"


def test_glob_shows_a_hundred_files(tools: GlobalTools, workdir: Path) -> None:
    make(workdir, *(f"{number}.txt" for number in range(101)))

    lines = tools.text("fs_glob", {"pattern": f"{workdir}/*.txt"}).split("\n")

    assert len(lines) == 101
    assert lines[-1] == "(The newest 100 of 101 files; narrow the pattern.)"


def test_grep_shows_file_line_and_text(tools: GlobalTools, workdir: Path) -> None:
    make(workdir, "b.py", "a.txt", "sub/c.py", "build/x.py", "yarn.lock", "x.min.js", "b.pyc")
    (workdir / "b.pyc").write_bytes(b"\0Hello")

    found = tools.text("fs_grep", {"pattern": "^H.llo"})

    assert found.split("\n") == [f"{file}:1:Hello" for file in ("a.txt", "b.py", "sub/c.py")]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"include": "*.py"}, "b.py:1:Hello\nsub/c.py:1:Hello"),
        ({"include": "sub/*.{py,js}"}, "sub/c.py:1:Hello"),
        ({"path": "sub"}, "sub/c.py:1:Hello"),
        ({"path": "yarn.lock"}, "yarn.lock:1:Hello"),
        ({"include": "*.go"}, "Nothing matches Hello"),
    ],
)
def test_grep_searches_where_it_is_told(
    tools: GlobalTools, workdir: Path, arguments: dict[str, str], found: str
) -> None:
    make(workdir, "b.py", "sub/c.py", "yarn.lock")

    assert tools.text("fs_grep", {"pattern": "Hello", **arguments}) == found


def test_grep_stops_at_fifty_matches_and_cuts_lines(tools: GlobalTools, workdir: Path) -> None:
    (workdir / "file").write_text(("x" * 3000 + "\n") * 51)

    lines = tools.text("fs_grep", {"pattern": "x"}).split("\n")

    assert lines[0] == "file:1:" + "x" * 2000
    assert lines[50:] == ["(Only the first 50 matches; narrow the search.)"]


def test_grep_does_not_follow_linked_directories(tools: GlobalTools, workdir: Path) -> None:
    make(workdir, "sub/file")
    (workdir / "linked").symlink_to(workdir / "sub")

    assert tools.text("fs_grep", {"pattern": "Hello"}) == "sub/file:1:Hello"


def test_grep_fails_on_what_is_no_pattern_and_no_place(tools: GlobalTools) -> None:
    assert "not a regular expression" in tools.failure("fs_grep", {"pattern": "("})
    assert "no file or directory" in tools.failure("fs_grep", {"pattern": "x", "path": "no"})


# ---- changing


def test_write_makes_a_file_of_exactly_these_bytes(tools: GlobalTools, workdir: Path) -> None:
    content = "é\r\n\ttab 'quotes' $(date) \\ end without newline"

    said = tools.text("fs_write", {"path": "new/dir/file", "content": content})

    assert (workdir / "new/dir/file").read_bytes() == content.encode()
    assert said == f"Wrote {len(content.encode())} bytes to new/dir/file"


def test_write_takes_the_content_by_its_other_name(tools: GlobalTools, workdir: Path) -> None:
    tools.text("fs_write", {"path": "file", "contents": ""})

    assert (workdir / "file").read_bytes() == b""
    assert tools.failure("fs_write", {"path": "f"}) == "error: missing required argument 'content'"
    assert list(shipped("fs_write").parameters["properties"]) == ["path", "content"]


def test_overwriting_asks_first(tools: GlobalTools, workdir: Path) -> None:
    (workdir / "file").write_text("old")
    call = ("fs_write", {"path": "file", "content": "new"})

    asked = tools.call(*call)

    assert asked == NeedsConfirmation(f"overwrite {workdir / 'file'}?")
    assert (workdir / "file").read_text() == "old"
    tools.text(*call, approvals=[asked.question])
    assert (workdir / "file").read_text() == "new"


def test_patch_shows_the_diff_asks_and_changes_the_file(tools: GlobalTools, workdir: Path) -> None:
    (workdir / "file").write_bytes(b"one\ntwo\xff\n")
    call = ("fs_patch", {"path": "file", "content": "@@ -1 +1 @@\n-one\n+1\n"})

    asked = tools.call(*call)

    assert asked.question.endswith("/file?\n@@ -1 +1 @@\n-one\n+1\n")
    tools.text(*call, approvals=[asked.question])
    assert (workdir / "file").read_bytes() == b"1\ntwo\xff\n"


def test_a_patch_that_does_not_fit_changes_nothing_and_asks_nobody(
    tools: GlobalTools, workdir: Path
) -> None:
    (workdir / "file").write_text("one\ntwo\n")
    diff = "@@ -1,1 +1,1 @@\n-one\n+1\n@@ -2,1 +2,1 @@\n-zwei\n+2\n"

    said = tools.failure("fs_patch", {"path": "file", "contents": diff})

    assert said == (
        "cannot patch file: hunk 2 does not fit: line 2: "
        "expected 'zwei', found 'two'; nothing was changed"
    )
    assert (workdir / "file").read_text() == "one\ntwo\n"


def test_mkdir_makes_parents_and_rm_removes_what_is_not_full(
    tools: GlobalTools, workdir: Path
) -> None:
    assert tools.text("fs_mkdir", {"path": "a/b"}) == "Made the directory a/b"
    assert tools.text("fs_mkdir", {"path": "a/b"}) == "The directory is there already: a/b"
    assert tools.failure("fs_rm", {"path": "a"}) == "cannot remove a: Directory not empty"
    assert tools.text("fs_rm", {"path": "a/b"}) == "Removed a/b"
    assert not (workdir / "a/b").exists()


def test_rm_removes_a_link_and_not_what_it_leads_to(
    tools: GlobalTools, workdir: Path, tmp_path: Path
) -> None:
    (tmp_path / "target").touch()
    (workdir / "link").symlink_to(tmp_path / "target")

    tools.text("fs_rm", {"path": "link"})

    assert not (workdir / "link").is_symlink()
    assert (tmp_path / "target").exists()


# ---- outside the working directory

CHANGES: list[tuple[str, dict[str, str]]] = [
    ("fs_write", {"path": "../outside/file", "content": "x"}),
    ("fs_write", {"path": "link/file", "content": "x"}),
    ("fs_patch", {"path": "../outside/there", "content": "@@\n-Hello\n+x\n"}),
    ("fs_rm", {"path": "../outside/there"}),
    ("fs_rm", {"path": "link/there"}),
    ("fs_mkdir", {"path": "../outside/sub/sub"}),
]
changes = pytest.mark.parametrize(("name", "arguments"), CHANGES)


@pytest.fixture
def outside(workdir: Path, tmp_path: Path) -> Path:
    """A directory beside the working directory, and a link in there that leads to it."""
    make(tmp_path / "outside", "there")
    (workdir / "link").symlink_to(tmp_path / "outside")
    return tmp_path / "outside"


@changes
def test_a_change_outside_the_working_directory_asks(
    tools: GlobalTools, outside: Path, name: str, arguments: dict[str, str]
) -> None:
    asked = tools.call(name, arguments)

    assert isinstance(asked, NeedsConfirmation)
    assert f"{outside}/" in asked.question
    assert "outside the working directory?" in asked.question
    assert "tool_call_error" not in tools.call(name, arguments, approvals=[asked.question])


@changes
def test_a_change_outside_is_refused_where_nobody_is_asked(
    tools: GlobalTools, outside: Path, name: str, arguments: dict[str, str]
) -> None:
    said = tools.failure(name, arguments, auto_confirm=True)

    assert "is outside the working directory" in said
    assert [file.name for file in outside.iterdir()] == ["there"]


@changes
def test_tool_root_permits_changes_in_it_where_nobody_is_asked(
    tools: GlobalTools, outside: Path, name: str, arguments: dict[str, str]
) -> None:
    value = tools.call(name, arguments, auto_confirm=True, tool_root=outside.parent)

    assert "tool_call_error" not in value


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        *CHANGES,
        ("fs_cat", {"path": "link/there"}),
        ("fs_read", {"path": "../outside/there"}),
        ("fs_ls", {"path": "/"}),
        ("fs_grep", {"pattern": "x", "path": "link"}),
        ("fs_glob", {"pattern": "../**/*"}),
        ("fs_glob", {"pattern": "link/*"}),
    ],
)
def test_no_file_tool_leaves_tool_root(
    tools: GlobalTools, workdir: Path, outside: Path, name: str, arguments: dict[str, str]
) -> None:
    said = tools.failure(name, arguments, tool_root=workdir)

    assert said.startswith("refused: ")
    assert [file.name for file in outside.iterdir()] == ["there"]


def test_searches_pass_over_links_that_lead_out_of_tool_root(
    tools: GlobalTools, workdir: Path, outside: Path
) -> None:
    (workdir / "file").symlink_to(outside / "there")

    assert tools.text("fs_grep", {"pattern": "Hello"}) == "file:1:Hello"
    assert "Nothing" in tools.text("fs_grep", {"pattern": "Hello"}, tool_root=workdir)
    assert "No file" in tools.text("fs_glob", {"pattern": "*"}, tool_root=workdir)


def make(directory: Path, *names: str) -> None:
    """Files that say hello."""
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("Hello\n")
