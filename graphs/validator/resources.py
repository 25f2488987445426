"""What the engine around an agent offers: the facts its references are checked against."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.graphs.limits import MAX_BRANCHES
from sleipnir.graphs.skills import SkillLibrary
from sleipnir.graphs.tools.library import DEFAULT_ALIASES, ToolLibrary
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """The surroundings of an agent; whoever validates fills in what it knows."""

    search: AgentSearch
    default_model: str | None = None
    # The engine's other names for models, and its servers that speak OpenAI's protocol.
    model_aliases: Collection[str] = ()
    model_providers: Collection[str] = ()
    # Whether a model, or all that an alias stands for, is known not to reason; without it nobody
    # looks.
    lacks_reasoning: Callable[[str], bool] | None = None
    # Likewise known not to call functions.
    lacks_functions: Callable[[str], bool] | None = None
    # Engine settings that count towards a fully specified knowledge base.
    rag_defaults: Mapping[str, Any] = field(default_factory=dict)
    # What somebody has said besides, by the agent's directory and the node's id.
    rag_choices: Mapping[tuple[Path, str], Mapping[str, Any]] = field(default_factory=dict)
    rag_template: str | None = None
    rag_reranker_model: str | None = None
    rag_absolute_paths: bool = False
    # Whether the embedding model of the extra `local` is installed.
    has_local_model: bool = True
    # Names of the commands that load documents; each is an extension and a prefix of paths.
    document_loaders: Collection[str] = ()
    # Where knowledge bases of agents are noted whose own directories cannot be written.
    knowledge_directory: Path | None = None
    # Nodes that one super-step may have.
    max_branches: int = MAX_BRANCHES
    # Where global tool files live, the user's before the shipped ones.
    tool_directories: tuple[Path, ...] = ()
    # Aliases of global tools: a list of tool files, or one comma-separated text.
    mapping_tools: Mapping[str, str | list[str]] = field(default_factory=dict)
    # The only tool files that agents may use; None: all.
    visible_tools: Sequence[str] | None = None
    # Where skills live, those of the working directory first.
    skill_directories: tuple[Path, ...] = ()
    # Where a program is on this machine, None if it is not there; without it nobody looks.
    find_program: Callable[[str], str | None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    # The MCP servers that are configured, and the names that stand for several.
    mcp_servers: frozenset[str] = frozenset()
    mcp_aliases: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # What starts those that run as programs of the worker, by name.
    mcp_programs: Mapping[str, str] = field(default_factory=dict)
    # Why none is configured, if the file of them is wrong (E608).
    mcp_findings: tuple[Finding, ...] = ()
    # Asks a configured server for its functions, None if it cannot be reached. Called only for
    # names nothing else explains; without it such names are taken on trust.
    list_mcp_functions: Callable[[str], Collection[str] | None] | None = None
    # True when a run is submitted: only then a missing knowledge base is an error.
    require_knowledge: bool = False

    def library(self) -> ToolLibrary:
        """The global tools that agents may name."""
        aliases = {**DEFAULT_ALIASES, **self.mapping_tools}
        return ToolLibrary(self.tool_directories, aliases, self.visible_tools)

    def skills(self) -> SkillLibrary:
        """The skills that agents may enable."""
        return SkillLibrary(self.skill_directories)
