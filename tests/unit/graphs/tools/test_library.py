"""Global tools, and the names for them."""

from pathlib import Path

import pytest

from sleipnir.graphs.tools.library import DEFAULT_ALIASES, ToolLibrary
from sleipnir.graphs.tools.shipped import SHIPPED_TOOLS


def library(directory: Path, *names: str, **options: object) -> ToolLibrary:
    directory.mkdir(exist_ok=True)
    for name in names:
        (directory / name).write_text("")
    return ToolLibrary([directory], **options)  # type: ignore[arg-type] - either option


def names(tools: ToolLibrary, entry: str) -> list[str]:
    return [file.name for file in tools.resolve(entry).files]


def test_an_entry_is_a_file_else_a_stem_else_an_alias(tmp_path: Path) -> None:
    files = ("job.sh", "job.py", "pair", "notes.txt")
    tools = library(tmp_path, *files, aliases={"pair": ["job", "job.sh"], "job": "job.sh"})

    assert names(tools, "job.sh") == ["job.sh"]
    assert names(tools, "job") == ["job.py"]
    assert names(tools, "pair") == ["job.py", "job.sh"]
    assert tools.resolve("notes.txt").unknown == ("notes.txt",)


def test_an_extension_is_only_a_wish(tmp_path: Path) -> None:
    library(tmp_path / "mine", "own.sh", "both.sh")
    library(tmp_path / "shipped", "own.py", "shipped.py", "both.py", "v1.2.py")
    directories = [tmp_path / "mine", tmp_path / "shipped"]
    tools = ToolLibrary(directories, {"team": "shipped.ts, own.ts"})

    assert names(tools, "shipped.sh") == ["shipped.py"]
    assert names(tools, "both.py") == ["both.py"]
    assert tools.resolve("own.ts").files == (tmp_path / "mine" / "own.sh",)
    assert names(tools, "team.sh") == ["shipped.py", "own.sh"]
    assert names(tools, "v1.2") == ["v1.2.py"]
    for unknown in ("shipped.rb", "elsewhere/shipped.sh", ".sh", ""):
        assert tools.resolve(unknown).unknown == (unknown,)


def test_an_alias_names_no_other_alias(tmp_path: Path) -> None:
    tools = library(tmp_path, "a.py", aliases={"outer": "inner, ,a,", "inner": "a"})

    assert names(tools, "outer") == ["a.py"]
    assert tools.resolve("outer").unknown == ("inner",)


def test_an_earlier_directory_hides_a_later_one(tmp_path: Path) -> None:
    library(tmp_path / "mine", "job.sh")
    library(tmp_path / "shipped", "job.py", "other.py")

    tools = ToolLibrary([tmp_path / "mine", tmp_path / "shipped", tmp_path / "none"])

    assert tools.resolve("job").files == (tmp_path / "mine" / "job.sh",)
    assert tools.resolve("job.py").files == (tmp_path / "shipped" / "job.py",)
    assert tools.names() == {"job", "other"}


def test_only_visible_tools_may_be_used(tmp_path: Path) -> None:
    aliases = {"pair": "a, b", "ok": "a"}
    tools = library(tmp_path, "a.py", "b.py", "c.sh", aliases=aliases, visible=["ok", "c.sh"])

    assert tools.resolve("pair").hidden == ("b",)
    assert names(tools, "pair") == ["a.py"]
    assert names(tools, "c") == ["c.sh"]


@pytest.mark.parametrize("alias", DEFAULT_ALIASES)
def test_default_aliases_name_shipped_tools(alias: str) -> None:
    resolved = ToolLibrary([SHIPPED_TOOLS], DEFAULT_ALIASES).resolve(alias)

    assert resolved.files
    assert not resolved.unknown
