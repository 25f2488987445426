"""Plans an import, and carries it out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from sleipnir.graphs.document.document import read_document
from sleipnir.graphs.document.finding import Finding, folded
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.document.references import AGENT_FILES, AgentSearch
from sleipnir.graphs.env_file import ENV_FILE, read_env_file
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.graphs.files import reason
from sleipnir.graphs.mcp.config import McpConfig, read_mcp_config
from sleipnir.graphs.tools.reader import EXTENSIONS, read_tool_file
from sleipnir.graphs.tools.shipped import SHIPPED_TOOLS
from sleipnir.graphs.validator import Resources, validate
from sleipnir.records import dataclass
from sleipnir.scheduler.client.preparation import resources_of
from sleipnir.scheduler.config.agents import agent_search
from sleipnir.scheduler.config.settings import Settings, checked_setting
from sleipnir.scheduler.doctor.agents import variables_not_passed_on
from sleipnir.scheduler.importing import trees
from sleipnir.scheduler.importing.entries import (
    Added,
    secrets_from,
    servers_from,
    settings_from,
    text_of,
)
from sleipnir.scheduler.importing.imported import Fate, Imported

T = TypeVar("T")

CONFIG = "config.yaml"
_OWNER_ONLY = 0o600
_AGENTS = Path("agents")
_TOOLS = Path("functions", "tools")
_UTILS = Path("functions", "utils")
_MCP_FILE = Path("functions", "mcp.json")
_LOOKED_AT = frozenset({_AGENTS.name, "functions", CONFIG, _MCP_FILE.name})
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

    def plan(self) -> Takeover:
        """Examine everything without changing anything.

        Raises:
            ImportRefused: a file of ours is unusable.
        """
        settings, taken = self._settings()
        servers, theirs = self._servers()
        secrets = self._secrets()
        resources = self._resources(replace(self.settings, **taken), theirs)
        agents = [self._agent(path, resources) for path in _entries(self.source / _AGENTS)]
        tools = [self._tool(path) for path in _entries(self.source / _TOOLS)]
        helpers = [self._tree("helper", path) for path in _entries(self.source / _UTILS)]
        parts = (*agents, *tools, *helpers, *servers, *settings, *secrets, *self._others())
        return Takeover(parts, self._writes, self.settings.secrets.file)

    def _others(self) -> Iterator[Imported]:
        """Yield everything else in the directory, so that nobody wonders where it has gone."""
        for path in _entries(self.source):
            if path.name not in _LOOKED_AT and not path.name.startswith("."):
                kind = "directory" if path.is_dir() else "file"
                note = _INSTEAD.get(path.name, "it has no counterpart here")
                yield Imported(kind, path.name, Fate.KEPT, (note,))

    def _settings(self) -> tuple[Sequence[Imported], Mapping[str, Any]]:
        """Return the settings, and the values of the imported ones."""
        file = self.source / CONFIG
        if not file.exists():
            return (), {}
        document, findings = read_document(file)
        if document is None:
            return (_unusable(file.name, findings),), {}
        text = _read(lambda: text_of(self.target / CONFIG), self.target / CONFIG)
        ours = _read(lambda: yaml.safe_load(text), self.target / CONFIG) or {}
        added = settings_from(document, ours, text, self.settings)
        copied = [part.name for part in added.parts if part.fate is Fate.COPIED]
        secrets = self.settings.secrets
        values = {name: secrets.resolve(document.data[name]) for name in copied}
        taken = {name: checked_setting(name, value, CONFIG) for name, value in values.items()}
        return self._added(added, self.target / CONFIG), taken

    def _servers(self) -> tuple[Sequence[Imported], McpConfig]:
        """Return the MCP servers, and all those there will be."""
        theirs, unusable = read_mcp_config(self.source)
        ours, findings = read_mcp_config(self.target)
        for finding in findings:
            raise ImportRefused(str(finding))
        if unusable:
            return (_unusable(_MCP_FILE.name, unusable),), ours
        added = servers_from(theirs, ours, self.settings.secrets)
        place = self.target / _MCP_FILE
        if not place.exists() and (self.target / _MCP_FILE.name).exists():
            place = self.target / _MCP_FILE.name
        parts = self._added(added, place)
        return parts, McpConfig({**theirs.servers, **ours.servers})

    def _secrets(self) -> Sequence[Imported]:
        file, secrets = self.source / ENV_FILE, self.settings.secrets
        try:
            values = read_env_file(file)
        except (OSError, UnicodeDecodeError) as error:
            note = f"cannot read {file}: {reason(error)}"
            return (Imported("file", file.name, Fate.KEPT, (note,)),)
        text = _read(lambda: text_of(secrets.file), secrets.file)
        added = _read(lambda: secrets_from(values, text, secrets.names()), secrets.file)
        return self._added(added, secrets.file)

    def _added(self, added: Added, place: Path) -> Sequence[Imported]:
        if added.text is not None:
            self._writes[place] = added.text
        return added.parts

    def _resources(self, settings: Settings, servers: McpConfig) -> Resources:
        """Return the resources that their agents will find after the import."""
        *places, shipped = agent_search(settings).directories
        search = AgentSearch((*places, self.source / _AGENTS, shipped))
        aliases = servers.with_aliases(settings.mapping_mcp_servers).aliases
        return replace(
            resources_of(settings, search),
            tool_directories=(self.target / _TOOLS, self.source / _TOOLS, SHIPPED_TOOLS),
            mcp_servers=frozenset(servers.servers),
            mcp_aliases=aliases,
            mcp_programs=servers.programs,
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
        return replace(part, notes=(*part.notes, *self._differences(path, resources)))

    def _differences(self, path: Path, resources: Resources) -> Iterator[str]:
        """Yield what an agent does not find here as before, with place and remedy."""
        try:
            agent = load_agent(path)
            findings = validate(agent, resources)
        except InvalidAgent as error:
            yield from _told(error.findings, path)
            return
        yield from _told(findings, path)
        dropped = variables_not_passed_on(agent, resources.library(), self.settings)
        for name, program in sorted(dropped.items()):
            yield (
                f"{program}: its variable {name} is not passed on to programs\n"
                f"  hint: `tool_env: [{name}]` in config.yaml, or a value in the agent's .env"
            )

    def _tool(self, path: Path) -> Imported:
        part = self._tree("tool", path)
        if path.suffix not in EXTENSIONS or not path.is_file() or part.fate is Fate.KEPT:
            return part
        notes = [*part.notes, *_told(read_tool_file(path, own=False).findings, path.parent)]
        shipped = {file.stem for file in SHIPPED_TOOLS.iterdir()}
        if path.stem in shipped:
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


def _told(findings: Sequence[Finding], directory: Path) -> Iterator[str]:
    """Yield findings with paths relative to a directory."""
    for finding in folded(findings):
        yield str(finding).replace(f"{directory}/", "")


def _read(reading: Callable[[], T], file: Path) -> T:
    try:
        return reading()
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ImportRefused(f"cannot read {file}: {reason(error)}") from error
