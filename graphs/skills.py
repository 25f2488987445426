"""Skills: instructions and tools that a model loads when its work needs them.

A skill is a file `SKILL.md` in a directory of its name: front matter between two `---` lines,
followed by the text for the model. The YAML parser is only imported if an agent uses skills.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from sleipnir.graphs.files import read_text, reason
from sleipnir.graphs.mcp.filters import MAX_PATTERN_CHARS, MAX_PATTERNS
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.graphs.schema import Graph, LlmNode, SkillFields
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass

with lazy_imports():
    from sleipnir.graphs.document import document as documents
    from sleipnir.graphs.tools import toolbox as toolboxes

if TYPE_CHECKING:
    from sleipnir.graphs.document.loader import Agent
    from sleipnir.graphs.tools.function import Function
    from sleipnir.graphs.tools.library import ToolLibrary

S = TypeVar("S", bound=SkillFields)

SKILL_FILE = "SKILL.md"
SHIPPED_SKILLS = Path(__file__).parent / "functions" / "skills"
_LIMIT_BYTES = 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


class UnusableSkill(Exception):
    """A skill cannot be loaded; the text says why."""


@dataclass(frozen=True, slots=True)
class Skill:
    """The content of a `SKILL.md`."""

    name: str  # that of its directory
    description: str
    body: str
    tools: tuple[str, ...] = ()  # entries as in `global_tools`
    servers: tuple[str, ...] = ()  # entries as in `mcp_servers`
    mcp_tools: Mapping[str, Sequence[str]] = field(default_factory=dict)  # filter of their tools
    auto_unload: bool = False  # whether it is unloaded after each answer


@dataclass(frozen=True, slots=True)
class SkillChoice:
    """The skills that one model may load, and what its prompt says about them."""

    names: tuple[str, ...] | None = None  # None: all skills found
    inject: bool = True
    instructions: str | None = None  # None: the shipped text

    def admits(self, name: str) -> bool:
        return self.names is None or name in self.names


def choice_of(*settings: SkillFields) -> SkillChoice | None:
    """Return what a model may load; None if skills are not enabled.

    They are if that is said, or if nothing is said, but skills are named.

    Args:
        settings: innermost first; a field that is not set is taken from the next one.
    """
    names, enabled = _first("enabled_skills", settings), _first("skills_enabled", settings)
    if not (names if enabled is None else enabled):
        return None
    inject = _first("inject_skill_instructions", settings)
    return SkillChoice(
        names=None if names is None else tuple(names),
        inject=inject is not False,
        instructions=_first("skill_instructions", settings),
    )


def choices_in(graph: Graph) -> Iterator[SkillChoice]:
    """Yield the choices of all models of an agent's graph."""
    for node in graph.nodes.values():
        found = None
        if isinstance(node, TurnNode):
            found = choice_of(node.config)
        elif isinstance(node, LlmNode):
            found = choice_of(node, graph)
        if found is not None:
            yield found


def with_default(agent: Agent, enabled: bool) -> Agent:
    """Return an agent whose `skills_enabled` has the setting of this name as its default."""

    def settled(described: S) -> S:
        return (
            described
            if described.skills_enabled is not None
            else replace(described, skills_enabled=True)
        )

    if not enabled:
        return agent
    return replace(
        agent,
        graph=None if agent.graph is None else settled(agent.graph),
        normal=None if agent.normal is None else settled(agent.normal),
    )


def _first(field: str, settings: Sequence[SkillFields]) -> Any:
    values = (getattr(each, field) for each in settings)
    return next((value for value in values if value is not None), None)


class SkillLibrary:
    """Finds skills in directories; a skill hides those of the same name in later directories."""

    def __init__(self, directories: Iterable[Path]) -> None:
        self.directories = tuple(directories)

    def find(self, name: str) -> Path | None:
        """Return the file of a skill; None if it does not exist."""
        if _NAME.fullmatch(name):
            for directory in self.directories:
                with suppress(OSError):
                    if (file := directory / name / SKILL_FILE).is_file():
                        return file
        return None

    def names(self) -> list[str]:
        """Return the names of all skills, sorted."""
        found: set[str] = set()
        for directory in self.directories:
            with suppress(OSError):  # most of these directories do not exist
                found |= {each.name for each in directory.iterdir() if self.find(each.name)}
        return sorted(found)

    def chosen(self, choices: Iterable[SkillChoice]) -> dict[str, Path]:
        """Return the files of all skills that any of the choices allows, by name, sorted."""
        wanted: set[str] = set()
        for choice in choices:
            wanted.update(self.names() if choice.names is None else choice.names)
        found = {name: self.find(name) for name in sorted(wanted)}
        return {name: file for name, file in found.items() if file is not None}


NO_SKILLS = SkillLibrary([])


def read_skill(file: Path) -> Skill:
    """Read a `SKILL.md`.

    Raises:
        UnusableSkill: it cannot be read, or has no description.
    """
    try:
        text = read_text(file, _LIMIT_BYTES, encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableSkill(f"cannot read {SKILL_FILE}: {reason(error)}") from error
    front = _FRONT_MATTER.match(text)
    if front is None:
        raise UnusableSkill(f"{SKILL_FILE} does not begin with front matter between lines '---'")
    document, findings = documents.parse_document(file, front[1])
    if document is None or findings:
        raise UnusableSkill(f"the front matter of {SKILL_FILE}: {findings[0].message}")
    fields = document.data
    description, auto_unload = fields.get("description"), fields.get("auto_unload")
    if not isinstance(description, str) or not description.strip():
        raise UnusableSkill(f"{SKILL_FILE} has no 'description'")
    if not isinstance(auto_unload, bool | None):
        raise UnusableSkill(f"'auto_unload' in {SKILL_FILE} is neither true nor false")
    return Skill(
        name=file.parent.name,
        description=description.strip(),
        body=text[front.end() :].strip(),
        tools=_listed(fields, "enabled_tools"),
        servers=_listed(fields, "enabled_mcp_servers"),
        mcp_tools=_filter(fields.get("mcp_tools")),
        auto_unload=bool(auto_unload),
    )


def _listed(fields: Mapping[str, Any], name: str, within: str = "") -> tuple[str, ...]:
    """Return a list of strings, given as such or as one comma-separated string."""
    value = fields.get(name)
    parts = value.split(",") if isinstance(value, str) else value or []
    if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
        place = f"'{within}{name}' in {SKILL_FILE}"
        raise UnusableSkill(f"{place} is neither a list of names nor a text")
    return tuple(dict.fromkeys(part.strip() for part in parts if part.strip()))


def _filter(written: Any) -> dict[str, tuple[str, ...]]:
    """Return `mcp_tools`, whose lists may be given as one comma-separated string."""
    written = {} if written is None else written
    if not isinstance(written, dict):
        raise UnusableSkill(f"'mcp_tools' in {SKILL_FILE} is not a mapping of servers to patterns")
    found = {server: _listed(written, server, "mcp_tools.") for server in written}
    for server, patterns in found.items():
        if len(patterns) > MAX_PATTERNS or any(len(each) > MAX_PATTERN_CHARS for each in patterns):
            raise UnusableSkill(
                f"'mcp_tools.{server}' in {SKILL_FILE} has more than {MAX_PATTERNS} patterns, or "
                f"one of more than {MAX_PATTERN_CHARS} characters"
            )
    return found


def functions_of(skill: Skill, library: ToolLibrary) -> tuple[Function, ...]:
    """Return the functions of a skill's tools.

    Raises:
        UnusableSkill: naming the tool that is unknown, hidden or broken.
    """
    for entry in skill.tools:
        resolved = library.resolve(entry)
        for name in resolved.unknown:
            raise UnusableSkill(f"unknown tool '{name}'")
        for name in resolved.hidden:
            raise UnusableSkill(f"tool '{name}' may not be used here")
    toolbox = toolboxes.Toolbox(skill.tools, library, None)
    for finding in toolbox.findings:
        raise UnusableSkill(f"its tools cannot be used: {finding.message}")
    return toolbox.functions


def tool_files(skill_files: Iterable[Path], library: ToolLibrary) -> list[Path]:
    """Return the files of the tools that skills need, as far as they exist."""
    found: dict[Path, None] = {}
    for file in skill_files:
        for entry in _of_usable(file).tools:
            found.update(dict.fromkeys(library.resolve(entry).files))
    return list(found)


def servers_of(skill_files: Iterable[Path]) -> list[str]:
    """Return the entries of MCP servers that skills need."""
    return list(dict.fromkeys(name for file in skill_files for name in _of_usable(file).servers))


def filtered_by(skill_files: Iterable[Path]) -> list[str]:
    """Return the MCP servers and aliases that filters of skills name."""
    return list(dict.fromkeys(name for file in skill_files for name in _of_usable(file).mcp_tools))


def _of_usable(file: Path) -> Skill:
    """Return the skill; if it is unusable, one without tools, as it will not be loaded."""
    try:
        return read_skill(file)
    except UnusableSkill:
        return Skill(file.parent.name, "", "")
