"""What the engine offers agents: the facts that their references are checked against."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from pathlib import Path
from typing import Any

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.references import AgentSearch
from sleipnir.graphs.limits import MAX_BRANCHES
from sleipnir.graphs.mcp.config import McpConfig
from sleipnir.graphs.skills import SkillLibrary
from sleipnir.graphs.tools.library import DEFAULT_ALIASES, ToolLibrary
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources available to an agent; the caller provides those it knows."""

    search: AgentSearch
    default_model: str | None = None
    # The queues that workers serve; None: not checked.
    queues: Collection[str] | None = None
    # The engine's aliases for models, and its own providers that speak OpenAI's protocol.
    model_aliases: Collection[str] = ()
    model_providers: Collection[str] = ()
    # Whether a model, or all that an alias stands for, is known not to reason; None: not checked.
    lacks_reasoning: Callable[[str], bool] | None = None
    # Whether it is known not to support function calls; None: not checked.
    lacks_functions: Callable[[str], bool] | None = None
    # What it is known not to take besides texts: images, PDFs; None: not checked.
    lacks_attachments: Callable[[str], AbstractSet[str]] | None = None
    # Engine settings that apply where a knowledge base sets none.
    rag_defaults: Mapping[str, Any] = field(default_factory=dict)
    # Settings chosen by the user at submission, by the agent's directory and the node's id.
    rag_choices: Mapping[tuple[Path, str], Mapping[str, Any]] = field(default_factory=dict)
    rag_template: str | None = None
    rag_reranker_model: str | None = None
    rag_absolute_paths: bool = False
    # Largest document of a knowledge base; None: documents are not read.
    document_bytes: int | None = None
    # Whether the embedding model of the extra `local` is installed.
    has_local_model: bool = True
    # Names of the commands that load documents; each is an extension and a prefix of paths.
    document_loaders: Collection[str] = ()
    # Those of them that cannot be used where documents are read.
    missing_loaders: Collection[str] = ()
    # Directory for pointers of agents whose own directories are not writable.
    knowledge_directory: Path | None = None
    # Nodes in one super-step.
    max_branches: int = MAX_BRANCHES
    # Directories of global tool files, the user's before the shipped ones.
    tool_directories: tuple[Path, ...] = ()
    # Files in them that do not count.
    left_out_tools: Collection[Path] = ()
    # Aliases of global tools: a list of tool files, or one comma-separated string.
    mapping_tools: Mapping[str, str | list[str]] = field(default_factory=dict)
    # The only tool files that agents may use; None: all.
    visible_tools: Sequence[str] | None = None
    # Whether models may load skills where nothing is said about it.
    skills_enabled: bool = False
    # Directories of skills, those in the working directory first.
    skill_directories: tuple[Path, ...] = ()
    # Returns the path of a program on this machine, or None; None: programs are not checked.
    find_program: Callable[[str], str | None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    # The configured MCP servers, the aliases that stand for several, and filters of their tools.
    mcp: McpConfig = McpConfig()
    # Why no server is configured, if their file is invalid as a whole (E608).
    mcp_findings: tuple[Finding, ...] = ()
    # Asks a configured server for its functions; returns None if it cannot be reached. Called only
    # for names that match nothing else; None: such names are taken on trust.
    list_mcp_functions: Callable[[str], Collection[str] | None] | None = None
    # Set when a run is submitted: only then a missing knowledge base is an error.
    require_knowledge: bool = False

    def library(self) -> ToolLibrary:
        """Return the global tools that agents may name."""
        aliases = {**DEFAULT_ALIASES, **self.mapping_tools}
        directories, left_out = self.tool_directories, self.left_out_tools
        return ToolLibrary(directories, aliases, self.visible_tools, left_out)

    def skills(self) -> SkillLibrary:
        """Return the skills that agents may enable."""
        return SkillLibrary(self.skill_directories)
