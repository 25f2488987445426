"""The global tool files that agents may name, and the aliases for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import TypeAlias

from sleipnir.graphs.tools.reader import EXTENSIONS
from sleipnir.records import dataclass

# Names of tool files: a list, or one comma-separated string.
Members: TypeAlias = str | list[str]

DEFAULT_ALIASES: Mapping[str, Members] = {
    "fs": "fs_cat, fs_ls, fs_mkdir, fs_rm, fs_write, fs_read, fs_glob, fs_grep",
    "web_search_loki": "web_search",
    "web_search_coyote": "web_search",
    "web_search_sleipnir": "web_search",
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """What an entry of `global_tools` stands for."""

    files: tuple[Path, ...] = ()
    unknown: tuple[str, ...] = ()  # the entry itself, or members of the alias
    hidden: tuple[str, ...] = ()  # as `unknown`, but excluded by `visible_tools`


class ToolLibrary:
    """Finds global tools in directories; a file hides those of the same name in later ones."""

    def __init__(
        self,
        directories: Iterable[Path],
        aliases: Mapping[str, Members] | None = None,
        visible: Collection[str] | None = None,
        left_out: Collection[Path] = (),
    ) -> None:
        """List the files.

        Args:
            directories: those that do not exist are skipped.
            aliases: by name.
            visible: the only entries that agents may use; None: all.
            left_out: files that do not count.
        """
        self._directories = [_tool_files(directory, left_out) for directory in directories]
        self.aliases = dict(aliases or {})
        self._visible: set[Path] | None = None
        if visible is not None:
            self._visible = {file for entry in visible for file in self.resolve(entry).files}

    def names(self) -> set[str]:
        """Return all valid entries, without extensions."""
        files = (name for directory in self._directories for name in directory)
        return {PurePath(name).stem for name in files} | self.aliases.keys()

    def resolve(self, entry: str) -> Resolved:
        """Return the files of an entry: a file name with or without extension, or an alias.

        The extension is a preference: without such a file, one of the same name in another language
        is used. An alias of an alias is unknown.
        """
        members = [entry]
        alias = entry if entry in self.aliases else bare_name(entry)
        if self._file(entry) is None and alias in self.aliases:
            members = list(members_of(self.aliases[alias]))
        found = [(member, self._file(member)) for member in members]
        return Resolved(
            files=tuple(file for _, file in found if file is not None and self._shows(file)),
            unknown=tuple(member for member, file in found if file is None),
            hidden=tuple(m for m, file in found if file is not None and not self._shows(file)),
        )

    def _shows(self, file: Path) -> bool:
        return self._visible is None or file in self._visible

    def _file(self, entry: str) -> Path | None:
        stem = bare_name(entry)
        named = (directory.get(entry) for directory in self._directories)
        others = (
            directory.get(stem + extension)
            for directory in self._directories
            for extension in EXTENSIONS
        )
        return next((file for file in (*named, *others) if file is not None), None)


def bare_name(entry: str) -> str:
    """Return an entry without the extension of a tool file, if it has one."""
    extension = PurePath(entry).suffix
    return entry.removesuffix(extension) if extension in EXTENSIONS else entry


def members_of(alias: Members) -> Iterator[str]:
    """Yield the names in the value of an alias."""
    parts = alias.split(",") if isinstance(alias, str) else alias
    return (part.strip() for part in parts if part.strip())


def _tool_files(directory: Path, left_out: Collection[Path]) -> dict[str, Path]:
    files = directory.iterdir() if directory.is_dir() else ()
    return {
        file.name: file
        for file in files
        if file.suffix in EXTENSIONS and file.is_file() and file not in left_out
    }
