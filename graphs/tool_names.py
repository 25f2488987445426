"""The names of tools and their functions, read off files without importing or running them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import TypeAlias

# A list of tool files, or one comma-separated text.
Members: TypeAlias = str | list[str]

# The global tools that come with the engine.
SHIPPED_TOOLS = frozenset(
    {
        *("demo_py.py", "demo_sh.sh", "demo_ts.ts"),
        *("execute_command.py", "execute_py_code.py", "fetch_url_via_curl.py"),
        *("fs_cat.py", "fs_glob.py", "fs_grep.py", "fs_ls.py", "fs_mkdir.py", "fs_patch.py"),
        *("fs_read.py", "fs_rm.py", "fs_write.py", "get_current_time.py"),
        *("search_arxiv.py", "search_wikipedia.py", "web_search.py"),
    }
)
DEFAULT_ALIASES: Mapping[str, Members] = {
    "fs": "fs_cat, fs_ls, fs_mkdir, fs_rm, fs_write, fs_read, fs_glob, fs_grep",
    "web_search_loki": "web_search",
    "web_search_sleipnir": "web_search",
}
# In the order in which a bare name is looked for.
_EXTENSIONS = (".py", ".sh", ".ts")

_BASH_COMMAND = re.compile(r"\s*#\s*@cmd\b")
_BASH_FUNCTION = re.compile(r"\s*(?:function\s+([\w:.-]+)|([\w:.-]+)\s*\(\s*\))")
_TYPESCRIPT_FUNCTION = re.compile(
    r"^export\s+(?:default\s+)?(?:async\s+)?function\s+([\w$]+)", re.MULTILINE
)


class GlobalTools:
    """The global tool files an engine offers, and the aliases for them."""

    def __init__(self, directories: Iterable[Path], aliases: Mapping[str, Members]) -> None:
        self._files: dict[str, Path | None] = {}  # None: shipped, no need to look inside
        for directory in directories:
            for path in directory.iterdir() if directory.is_dir() else ():
                if path.suffix in _EXTENSIONS:
                    self._files.setdefault(path.name, path)
        for name in SHIPPED_TOOLS:
            self._files.setdefault(name, None)
        self._aliases = {**DEFAULT_ALIASES, **aliases}

    def names(self) -> set[str]:
        """Everything an entry may say, without extensions."""
        return {PurePath(name).stem for name in self._files} | self._aliases.keys()

    def resolve(self, entry: str) -> tuple[list[str], list[str]]:
        """The file names an entry of `global_tools` stands for, and what is unknown of it."""
        file = self._file(entry)
        if file is not None:
            return [file], []
        if entry not in self._aliases:
            return [], [entry]
        files: list[str] = []
        unknown: list[str] = []
        for member in _members(self._aliases[entry]):
            file = self._file(member)
            if file is None:
                unknown.append(member)
            else:
                files.append(file)
        return files, unknown

    def functions(self, file: str) -> set[str]:
        """The functions a global tool file offers: one named after it, or its commands."""
        path = self._files[file]
        commands = _bash_functions(path) if path is not None and path.suffix == ".sh" else set()
        return commands or {_function_name(PurePath(file).stem)}

    def _file(self, entry: str) -> str | None:
        candidates = (entry, *(entry + extension for extension in _EXTENSIONS))
        return next((name for name in candidates if name in self._files), None)


def own_functions(agent_directory: Path) -> set[str]:
    """The functions an agent's own tools file offers; none if it has no such file."""
    readers = {".py": _python_functions, ".sh": _bash_functions, ".ts": _typescript_functions}
    for extension, read in readers.items():
        path = agent_directory / f"tools{extension}"
        if path.is_file():
            return read(path)
    return set()


def _members(alias: Members) -> Iterator[str]:
    parts = alias.split(",") if isinstance(alias, str) else alias
    return (part.strip() for part in parts if part.strip())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # reported where the tools are loaded
        return ""


def _function_name(name: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "_", name.lower())


def _python_functions(path: Path) -> set[str]:
    try:
        module = ast.parse(_read(path))
    except (SyntaxError, ValueError):  # reported where the tools are loaded
        return set()
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    functions = (node for node in module.body if isinstance(node, kinds))
    return {_function_name(node.name) for node in functions if not node.name.startswith("_")}


def _bash_functions(path: Path) -> set[str]:
    """The shell functions that follow a `@cmd` line."""
    found: set[str] = set()
    expected = False
    for line in _read(path).splitlines():
        if _BASH_COMMAND.match(line):
            expected = True
        elif expected and (function := _BASH_FUNCTION.match(line)):
            found.add((function[1] or function[2]).replace("-", "_"))
            expected = False
    return {name for name in found if not name.startswith("_")}


def _typescript_functions(path: Path) -> set[str]:
    names = _TYPESCRIPT_FUNCTION.findall(_read(path))
    return {name for name in names if not name.startswith("_")}
