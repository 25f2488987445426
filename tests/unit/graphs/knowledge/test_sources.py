"""What the entries of `documents` stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sleipnir.graphs.knowledge.sources import SourceError, classify, files_of, source_of


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    agent = tmp_path / "agent"
    for name in (
        "a.md",
        "b.txt",
        "README",
        "dir/c.md",
        "dir/d.txt",
        "dir/e.MD",
        "dir/sub/f.md",
        "dir/sub/NAME.md",
        "dir/NAME.md",
        "dir/one/NAME.md",
        "dir/.hidden/g.md",
        "dir/.git/h.md",
        "dir/.secret.md",
        "odd[1]/i.md",
    ):
        file = agent / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return agent.resolve()


@pytest.mark.parametrize(
    ("entry", "kind", "target"),
    [
        (" https://example.org/docs/** ", "crawl", "https://example.org/docs/"),
        ("http://example.org/a.html", "url", "http://example.org/a.html"),
        ("git:docs", "loader", "docs"),
        ("other:docs", "local", "other:docs"),
        ("git:https://example.org/x", "loader", "https://example.org/x"),
        ("docs/**", "local", "docs/**"),
    ],
)
def test_an_entry_is_classified_by_its_form(entry: str, kind: str, target: str) -> None:
    found = classify(entry, ["git"])

    assert (found.kind, found.target) == (kind, target)


@pytest.mark.parametrize(
    ("path", "sources"),
    [
        ("a.md", ["./a.md"]),
        ("./a.md", ["./a.md"]),
        ("README", ["./README"]),
        ("*.md", ["./a.md"]),
        ("*.{md,txt}", ["./a.md", "./b.txt"]),
        ("dir/*.md", ["./dir/NAME.md", "./dir/c.md"]),
        (
            "dir/**/*.md",
            [
                "./dir/NAME.md",
                "./dir/c.md",
                "./dir/one/NAME.md",
                "./dir/sub/NAME.md",
                "./dir/sub/f.md",
            ],
        ),
        ("dir/**/NAME.md", ["./dir/NAME.md", "./dir/one/NAME.md", "./dir/sub/NAME.md"]),
        ("dir/*/NAME.md", ["./dir/one/NAME.md", "./dir/sub/NAME.md"]),
        ("dir/sub", ["./dir/sub/NAME.md", "./dir/sub/f.md"]),
        ("dir/sub/", ["./dir/sub/NAME.md", "./dir/sub/f.md"]),
        ("dir/sub/**", ["./dir/sub/NAME.md", "./dir/sub/f.md"]),
        ("dir/[cd].*", ["./dir/c.md", "./dir/d.txt"]),
        ("?.md", ["./a.md"]),
        ("odd[1]", ["./odd[1]/i.md"]),
        ("dir/.hidden/*.md", ["./dir/.hidden/g.md"]),
    ],
)
def test_a_path_stands_for_these_files(directory: Path, path: str, sources: list[str]) -> None:
    assert [source_of(directory, file) for file in files_of(directory, path)] == sources


@pytest.mark.parametrize("path", ["dir/[!cN].md", "missing", "missing/*.md", "dir/*.pdf"])
def test_a_path_that_stands_for_no_file_is_an_error(directory: Path, path: str) -> None:
    with pytest.raises(SourceError, match="no file matches"):
        files_of(directory, path)


@pytest.mark.parametrize("path", ["../other/x.md", "dir/../../x", "/etc/hosts", "~/x", "out/x.md"])
def test_no_path_leaves_the_agent_directory(directory: Path, path: str) -> None:
    (directory / "out").symlink_to("..")

    with pytest.raises(SourceError, match="outside the agent directory"):
        files_of(directory, path)


def test_links_are_followed_inside_the_directory_only_and_never_in_circles(
    directory: Path,
) -> None:
    (directory.parent / "beside").mkdir()
    (directory.parent / "beside" / "x.md").write_text("x")
    (directory / "dir" / "sub" / "round").symlink_to("..")
    (directory / "dir" / "sub" / "out").symlink_to("../../../beside")

    for path in ("dir/sub", "dir/sub/**/*.md"):
        found = [source_of(directory, file) for file in files_of(directory, path)]

        assert "./dir/sub/f.md" in found
        assert not any("beside" in source or "/out/" in source for source in found)
        assert "./dir/sub/out" in found  # it is named, and cannot be read
        assert len(found) == len(set(found)) < 10
    free = files_of(directory, "dir/sub", allow_absolute=True)
    assert "./dir/sub/out/x.md" in [source_of(directory, file) for file in free]


def test_an_absolute_path_is_read_where_the_engine_allows_it(
    directory: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.md").write_text("x")

    found = files_of(directory, str(tmp_path / "*.md"), allow_absolute=True)

    assert [source_of(directory, file) for file in found] == [f"{tmp_path}/x.md"]


def test_a_pattern_of_a_million_alternatives_is_refused(directory: Path) -> None:
    with pytest.raises(SourceError, match="alternatives"):
        files_of(directory, "{a,b}" * 20)
