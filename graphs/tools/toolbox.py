"""All functions of one agent, and the selection for one node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.tools.function import Function
from sleipnir.graphs.tools.library import Resolved, ToolLibrary
from sleipnir.graphs.tools.reader import EXTENSIONS, ToolFile, read_tool_file
from sleipnir.records import dataclass

SERVER_PREFIX = "mcp:"


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """What the `tools` of one node stand for, each once and in order."""

    functions: tuple[Function, ...] = ()
    servers: tuple[str, ...] = ()  # from `mcp:<server>`: all functions of these
    # Not functions, files or aliases of the agent; possibly functions of its MCP servers.
    others: tuple[str, ...] = ()


class Toolbox:
    """The functions of an agent: its global tools in order, then its own."""

    def __init__(
        self, global_tools: Sequence[str], library: ToolLibrary, agent_directory: Path | None
    ) -> None:
        """Read the tool files; everything that is wrong with them is in `findings`.

        Args:
            agent_directory: with the agent's own tools; None: it has none of its own.
        """
        self._library = library
        self._resolved = {entry: library.resolve(entry) for entry in global_tools}
        paths = dict.fromkeys(file for found in self._resolved.values() for file in found.files)
        own = _own_files(agent_directory) if agent_directory is not None else []
        files = [read_tool_file(path, own=False) for path in paths]
        files += [read_tool_file(path, own=True) for path in own[:1]]
        self._by_path: dict[Path, tuple[Function, ...]] = {f.path: f.functions for f in files}

        self.files: tuple[Path, ...] = tuple(paths)  # of the global tools
        self.functions: tuple[Function, ...] = tuple(_distinct(files))
        self.instructions: Function | None = next(
            (file.instructions for file in files if file.instructions is not None), None
        )
        self.findings: tuple[Finding, ...] = (
            *_second_files(own),
            *(finding for file in files for finding in file.findings),
            *_duplicates(files),
        )

    @property
    def is_broken(self) -> bool:
        """Whether some file cannot be read, so that functions may be missing."""
        return any(finding.code == "E603" for finding in self.findings)

    def known_entries(self) -> set[str]:
        """Everything that `global_tools` could list, used by this agent or not."""
        return self._library.names()

    def resolved(self, entry: str) -> Resolved:
        """Return what an entry of the agent's `global_tools` stands for."""
        return self._resolved[entry]

    def select(self, entries: Iterable[str]) -> ToolSelection:
        """Return the functions and servers that a node's `tools` name."""
        functions: dict[str, Function] = {}
        servers: dict[str, None] = {}
        others: dict[str, None] = {}
        for entry in entries:
            if entry.startswith(SERVER_PREFIX):
                servers[entry.removeprefix(SERVER_PREFIX)] = None
            elif (found := self._named(entry)) is not None:
                functions.update((function.name, function) for function in found)
            else:
                others[entry] = None
        return ToolSelection(tuple(functions.values()), tuple(servers), tuple(others))

    def exists(self, entry: str) -> bool:
        """Return whether an entry names existing global tools, used by this agent or not."""
        resolved = self._library.resolve(entry)
        return bool(resolved.files) and not resolved.unknown

    def _named(self, entry: str) -> list[Function] | None:
        """Return the functions that an entry names, alone or by file; None if it names none."""
        for function in self.functions:
            if function.name == entry:
                return [function]
        files = self._library.resolve(entry).files
        if not files or not set(files) <= set(self.files):
            return None
        names = {function.name: function for function in self.functions}
        return [names[function.name] for file in files for function in self._by_path[file]]


def _own_files(directory: Path) -> list[Path]:
    candidates = (directory / f"tools{extension}" for extension in EXTENSIONS)
    return [file for file in candidates if file.is_file()]


def _distinct(files: Iterable[ToolFile]) -> Collection[Function]:
    """Return one function per name, the first."""
    found: dict[str, Function] = {}
    for file in files:
        for function in file.functions:
            found.setdefault(function.name, function)
    return found.values()


def _second_files(own: Sequence[Path]) -> list[Finding]:
    if len(own) < 2:
        return []
    names = ", ".join(file.name for file in own)
    message = f"more than one tools file ({names}); keep one"
    return [Finding("E602", message, file=str(own[1]))]


def _duplicates(files: Iterable[ToolFile]) -> list[Finding]:
    first: dict[str, Function] = {}
    findings = []
    for function in (function for file in files for function in file.functions):
        earlier = first.setdefault(function.name, function)
        if earlier is not function:
            place = f"line {earlier.line}" if earlier.file == function.file else str(earlier.file)
            message = f"function '{function.name}' is already declared in {place}"
            found = Finding("E606", message, file=str(function.file), line=function.line)
            findings.append(found)
    return findings
