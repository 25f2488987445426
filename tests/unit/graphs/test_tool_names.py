"""Names of tools and functions, read off their files."""

from pathlib import Path

import pytest

from graphs.tool_names import DEFAULT_ALIASES, GlobalTools, own_functions


def test_an_entry_is_a_file_else_a_stem_else_an_alias(tmp_path: Path) -> None:
    for name in ("job.sh", "job.py", "pair", "notes.txt"):
        (tmp_path / name).write_text("")
    tools = GlobalTools([tmp_path], {"pair": ["job", "fs_cat"]})

    assert tools.resolve("job.sh") == (["job.sh"], [])
    assert tools.resolve("job") == (["job.py"], [])
    assert tools.resolve("pair") == (["job.py", "fs_cat.py"], [])
    assert tools.resolve("notes.txt") == ([], ["notes.txt"])


def test_an_alias_names_no_other_alias() -> None:
    tools = GlobalTools([], {"outer": "fs, ,fs_cat,"})

    assert tools.resolve("outer") == (["fs_cat.py"], ["fs"])


@pytest.mark.parametrize("alias", DEFAULT_ALIASES)
def test_default_aliases_name_shipped_tools(alias: str) -> None:
    files, unknown = GlobalTools([], {}).resolve(alias)

    assert files
    assert not unknown


def test_the_first_directory_hides_later_files_and_shipped_ones(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "demo_sh.sh").write_text("# @cmd Mine\nmine() { :; }\n")
    (tmp_path / "b" / "demo_sh.sh").write_text("# @cmd Other\nother() { :; }\n")

    tools = GlobalTools([tmp_path / "a", tmp_path / "b", tmp_path / "none"], {})

    assert tools.functions("demo_sh.sh") == {"mine"}
    assert tools.functions("fs_cat.py") == {"fs_cat"}


def test_only_bash_files_hold_commands(tmp_path: Path) -> None:
    (tmp_path / "My-Job.py").write_text("# @cmd No command\nnone() { :; }\n")

    assert GlobalTools([tmp_path], {}).functions("My-Job.py") == {"my_job"}


@pytest.mark.parametrize(
    ("file", "text", "functions"),
    [
        ("tools.py", "def A_b(): ...\nasync def c(): ...\ndef _d(): ...\nx = 1", {"a_b", "c"}),
        ("tools.py", "def broken(:", set()),
        ("tools.sh", "# @cmd Do\n# @arg x!\ndo-it() {\n}\nhelper() { :; }", {"do_it"}),
        ("tools.sh", "# @cmd Do\nfunction do_it {\n}\n#@cmd Hidden\n_hidden() { :; }", {"do_it"}),
        ("tools.ts", "export function a() {}\nexport async function b() {}", {"a", "b"}),
        ("other.py", "def a(): ...", set()),
    ],
)
def test_an_agents_functions_are_read_without_running_them(
    file: str, text: str, functions: set[str], tmp_path: Path
) -> None:
    (tmp_path / file).write_text(text)

    assert own_functions(tmp_path) == functions
