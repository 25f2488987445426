"""Plans an import, and carries it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TypeVar

import yaml

from sleipnir.graphs.document.document import read_document
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.references import AGENT_FILES, AgentSearch
from sleipnir.graphs.env_file import ENV_FILE, read_env_file
from sleipnir.graphs.files import reason
from sleipnir.graphs.mcp.config import McpConfig
from sleipnir.graphs.mcp.reading import mcp_files, read_mcp_config, read_mcp_files
from sleipnir.graphs.skills import SHIPPED_SKILLS, SKILL_FILE, UnusableSkill, read_skill
from sleipnir.graphs.tools.reader import EXTENSIONS, read_tool_file
from sleipnir.graphs.tools.shipped import SHIPPED_TOOLS
from sleipnir.graphs.validator import Resources
from sleipnir.records import dataclass
from sleipnir.scheduler.client.preparation import resources_of
from sleipnir.scheduler.config.agents import agent_search
from sleipnir.scheduler.config.mcp_servers import with_settings
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.importing import trees
from sleipnir.scheduler.importing.agents import check_agent, described
from sleipnir.scheduler.importing.imported import Fate, Imported
from sleipnir.scheduler.importing.our_files import text_of
from sleipnir.scheduler.importing.secrets import secrets_from
from sleipnir.scheduler.importing.servers import servers_from
from sleipnir.scheduler.importing.settings import CONFIG, NewConfig, config_from
from sleipnir.scheduler.importing.tools import hides_shipped, why_not_taken

T = TypeVar("T")

_OWNER_ONLY = 0o600
_AGENTS = Path("agents")
_SKILLS = Path("skills")
_TOOLS = Path("functions", "tools")
_UTILS = Path("functions", "utils")
_MCP_FILE = Path("functions", "mcp.json")
_LOOKED_AT = frozenset({_AGENTS.name, _SKILLS.name, "functions", CONFIG, _MCP_FILE.name})
_INSTEAD = {
    "roles": "write a normal agent for each, with its text as `instructions`",
    "rags": "rebuild knowledge bases: `sleipnir kb build`",
}


class ImportRefused(Exception):
    """A file of ours to add entries to is unusable."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """The plan of an import: the fate of everything found, and what to write."""

    parts: tuple[Imported, ...]
    # Target → the file or directory to copy there, or the new text of a file of ours.
    writes: Mapping[Path, Path | str]
    secrets_file: Path

    def carry_out(self) -> None:
        """Write everything.

        Raises:
            OSError: something cannot be written; what was written before stays.
        """
        for place, content in self.writes.items():
            if isinstance(content, Path):
                trees.copy(content, place)
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            if place == self.secrets_file and not place.exists():
                place.touch(_OWNER_ONLY)
            place.write_text(content, encoding="utf-8")


@dataclass
class Importer:
    """Examines one directory.

    Args:
        source: their directory.
        target: our configuration directory.
        settings: our current settings.
    """

    source: Path
    target: Path
    settings: Settings
    _writes: dict[Path, Path | str] = field(default_factory=dict)
    _left_out: list[Path] = field(default_factory=list)  # tool files in whose place ours are used

    def plan(self) -> Takeover:
        """Examine everything without changing anything.

        Raises:
            ImportRefused: a file of ours is unusable.
        """
        config = self._config()
        servers, theirs = self._servers()
        secrets = self._secrets(config.keys)
        tools = [self._tool(path) for path in _entries(self.source / _TOOLS)]
        helpers = [self._tree("helper", path) for path in _entries(self.source / _UTILS)]
        skills = [self._skill(path) for path in _entries(self.source / _SKILLS)]
        resources = self._resources(config.settings, theirs)
        agents = [self._agent(path, resources) for path in _entries(self.source / _AGENTS)]
        code = (*agents, *skills, *tools, *helpers)
        parts = (*code, *servers, *config.parts, *secrets, *self._others())
        return Takeover(parts, self._writes, self.settings.secrets.file)

    def _others(self) -> Iterator[Imported]:
        """Yield everything else in the directory, so that nobody wonders where it has gone."""
        for path in _entries(self.source):
            if path.name not in _LOOKED_AT and not path.name.startswith("."):
                kind = "directory" if path.is_dir() else "file"
                note = _INSTEAD.get(path.name, "it has no counterpart here")
                yield Imported(kind, path.name, Fate.KEPT, (note,))

    def _config(self) -> NewConfig:
        nothing = NewConfig((), self.settings, None, {})
        file, ours = self.source / CONFIG, self.target / CONFIG
        if not file.exists():
            return nothing
        document, findings = read_document(file)
        if document is None:
            return replace(nothing, parts=(_unusable(file.name, findings),))
        text = _read(lambda: text_of(ours), ours)
        config = _read(lambda: config_from(document, text, self.settings), ours)
        self._rewrite(ours, config.text)
        return config

    def _servers(self) -> tuple[Sequence[Imported], McpConfig]:
        """Return the MCP servers, and all those there will be."""
        files = {file: read_mcp_files([file])[1] for file in mcp_files(self.source)}
        theirs, _ = read_mcp_files(file for file, findings in files.items() if not findings)
        ours, wrong = read_mcp_config(self.target)
        for finding in wrong:
            raise ImportRefused(str(finding))
        unusable = [
            _unusable(str(file.relative_to(self.source)), findings)
            for file, findings in files.items()
            if findings
        ]
        place = next(iter(mcp_files(self.target)), self.target / _MCP_FILE)
        added_to, _ = read_mcp_files([place] if place.exists() else [])
        parts, text = servers_from(theirs, ours, added_to, self.settings.secrets)
        self._rewrite(place, text)
        return [*unusable, *parts], ours.before(theirs)

    def _secrets(self, keys: Mapping[str, str]) -> Sequence[Imported]:
        """Return the keys of their `.env`, and these of model servers."""
        file, ours = self.source / ENV_FILE, self.settings.secrets.file
        unreadable: list[Imported] = []
        variables: Mapping[str, str] = {}
        try:
            variables = read_env_file(file)
        except (OSError, UnicodeDecodeError) as error:
            note = f"cannot read {file}: {reason(error)}"
            unreadable = [Imported("file", file.name, Fate.KEPT, (note,))]
        _read(self.settings.secrets.names, ours)
        parts, text = secrets_from(variables, keys, _read(lambda: text_of(ours), ours))
        self._rewrite(ours, text)
        return unreadable + parts

    def _rewrite(self, file: Path, text: str | None) -> None:
        """Give a file of ours a new text; None: it stays as it is."""
        if text is not None:
            self._writes[file] = text

    def _resources(self, settings: Settings, servers: McpConfig) -> Resources:
        """Return the resources that their agents will find after the import."""
        *places, shipped = agent_search(settings).directories
        search = AgentSearch((*places, self.source / _AGENTS, shipped))
        return replace(
            resources_of(settings, search),
            tool_directories=(self.target / _TOOLS, self.source / _TOOLS, SHIPPED_TOOLS),
            left_out_tools=tuple(self._left_out),
            skill_directories=(self.target / _SKILLS, self.source / _SKILLS, SHIPPED_SKILLS),
            mcp=with_settings(servers, settings),
            mcp_findings=(),
        )

    def _agent(self, path: Path, resources: Resources) -> Imported:
        if path.name.startswith("."):
            return self._tree("shared files", path)
        if not any((path / name).is_file() for name in AGENT_FILES):
            note = f"it has neither {AGENT_FILES[0]} nor {AGENT_FILES[1]}"
            return Imported("agent", path.name, Fate.KEPT, (note,))
        part = self._tree("agent", path)
        if part.fate is Fate.KEPT:
            return part
        check, notes = check_agent(path, resources, self.settings)
        return replace(part, notes=(*part.notes, *notes), check=check)

    def _skill(self, path: Path) -> Imported:
        part = self._tree("skill", path)
        if part.fate is Fate.KEPT:
            return part
        try:
            read_skill(path / SKILL_FILE)
        except UnusableSkill as error:
            return replace(part, notes=(*part.notes, f"no agent can load it: {error}"))
        return part

    def _tool(self, path: Path) -> Imported:
        if path.suffix not in EXTENSIONS or not path.is_file():
            return self._tree("tool", path)
        tool = read_tool_file(path, own=False)
        if why := why_not_taken(tool):
            self._left_out.append(path)
            return Imported("tool", path.name, Fate.KEPT, (why,))
        part = self._tree("tool", path)
        if part.fate is Fate.KEPT:
            return part
        notes = [*part.notes, *described(tool.findings, path.parent)]
        if hides_shipped(path):
            notes.append(f"it replaces the shipped {path.stem}: remove it to use that")
        return replace(part, notes=tuple(notes))

    def _tree(self, kind: str, path: Path) -> Imported:
        place = self.target / path.relative_to(self.source)
        part = trees.tree(kind, path, place, self.settings.bundle_limit_bytes)
        if part.fate is Fate.COPIED:
            self._writes[place] = path
        return part


def _entries(directory: Path) -> list[Path]:
    found = sorted(directory.iterdir()) if directory.is_dir() else []
    return [path for path in found if path.name not in trees.LEFT_OUT]


def _unusable(name: str, findings: Sequence[Finding]) -> Imported:
    """Return the part for a file of theirs that is unusable as a whole."""
    hint = "correct it in a copy of the directory, and import that"
    notes = [*map(str, findings), hint]
    return Imported("file", name, Fate.KEPT, tuple(notes))


def _read(reading: Callable[[], T], file: Path) -> T:
    try:
        return reading()
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ImportRefused(f"cannot read {file}: {reason(error)}") from error
