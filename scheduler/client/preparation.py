"""Prepares an agent for runs: finds, validates and packs it, with the agents it may spawn.

From then on, runs need no files of the submitting machine.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from sleipnir.graphs.bundles.archive import Bundle, Part, pack
from sleipnir.graphs.bundles.layout import bundle_parts
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.loader import Agent, load_agent
from sleipnir.graphs.document.queues import named_in, queues_of
from sleipnir.graphs.document.references import AgentSearch, is_shipped
from sleipnir.graphs.errors import AgentNotFound, BundleError, InvalidAgent
from sleipnir.graphs.knowledge.plan import KnowledgePlan
from sleipnir.graphs.knowledge.sources import loader_names
from sleipnir.graphs.normal_agent import NormalAgent
from sleipnir.graphs.schema import AgentNode, Graph, LlmNode
from sleipnir.graphs.skills import (
    SHIPPED_SKILLS,
    SkillLibrary,
    choices_in,
    filtered_by,
    servers_of,
    with_default,
)
from sleipnir.graphs.tools.library import ToolLibrary
from sleipnir.graphs.tools.shipped import SHIPPED_TOOLS
from sleipnir.graphs.validator import Resources, validate
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.client.knowledge.plans import (
    BuildChoices,
    ChooseBuild,
    built_bases,
    choices_for,
    plans_of,
    rag_defaults,
    unbuilt_bases,
)
from sleipnir.scheduler.client.knowledge.pointers import BuiltBase, UnbuiltBase
from sleipnir.scheduler.config.directories import config_dir, data_dir
from sleipnir.scheduler.config.mcp_servers import configured_servers
from sleipnir.scheduler.config.model_table import (
    lacks_attachments,
    lacks_functions,
    lacks_reasoning,
)
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.runs.child_agents import ChildAgents, names_in
from sleipnir.scheduler.runs.model import SHIPPED

# Most agents have no knowledge base, and checking one needs no Redis.
with lazy_imports():
    from sleipnir.scheduler.client.knowledge import documents as knowledge_documents
    from sleipnir.scheduler.store import connection

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.recording import MadeWith

# The modules of the extra `documents`, by the names of their loaders.
_EXTRA_LOADERS = {"pdf": "pypdf", "docx": "mammoth"}

D = TypeVar("D", Graph, NormalAgent)

# The errors that a person at a terminal can resolve.
_NOT_BUILT, _UNREADABLE = "E208", "E223"
_DESCRIPTION_CHARACTERS = 200  # of an agent, as shown to models


@dataclass(frozen=True, slots=True)
class PreparedAgent:
    """A validated agent whose bundles are in the store."""

    name: str
    source: Agent  # as its directory describes it
    graph: Graph
    digest: str
    agents: Mapping[str, str]  # bundle digests of the agents it may spawn, by name
    unavailable: Mapping[str, str]  # why other such agents cannot start, by name
    warnings: tuple[Finding, ...]
    needs_facts: bool = (
        False  # its prompts, or those of agents below it, may say what machine it is
    )
    directory: str = ""  # the agents that models may start, a line each
    unbuilt: tuple[UnbuiltBase, ...] = ()  # knowledge bases that its runs have to build
    built: tuple[BuiltBase, ...] = ()  # others of its bundles
    queues: frozenset[str] = frozenset()  # that its nodes and those of agents below it name
    path: str | None = None  # its directory, or SHIPPED


class Preparation:
    """The preparation of one agent; used once.

    Args:
        put_bundle: stores a bundle, given its digest and its bytes.
        workdir: the working directory of its runs, which may have skills; None: the current one.
        choose: asks for missing settings of knowledge bases; None: nobody is asked.
        made_with: of a recording that is replayed; None: the settings here count.
    """

    def __init__(
        self,
        settings: Settings,
        search: AgentSearch,
        put_bundle: Callable[[str, bytes], None],
        workdir: Path | None = None,
        choose: ChooseBuild | None = None,
        made_with: MadeWith | None = None,
    ) -> None:
        if made_with is not None:
            settings = replace(settings, **made_with.settings())
        self._made_with = made_with
        self._settings = settings
        self._search = search
        self._put_bundle = put_bundle
        self._choose = choose
        self._reads_documents = True
        self._choices: dict[tuple[Path, str], Mapping[str, Any]] = {}
        self._resources = resources_of(
            settings,
            search,
            require_knowledge=True,
            workdir=workdir,
            rag_choices=self._choices,
        )
        self._library = self._resources.library()
        self._digests: dict[Path, str] = {}  # digests of stored bundles, by directory
        self._failed: dict[Path, str] = {}  # why other directories cannot be packed
        self._sizes: dict[Path, int] = {}  # their sizes in bytes, likewise
        self._descriptions: dict[str, str] = {}  # by agent
        self._children = ChildAgents()
        self._needs_facts = False
        # Those that start agents named by their models, by digest: their directories, and the
        # names that they may use (None: any).
        self._supervisors: dict[str, tuple[Path, Collection[str] | None]] = {}
        self._unbuilt: list[UnbuiltBase] = []
        self._built: list[BuiltBase] = []
        self._left_out: list[Finding] = []
        self._queues: set[str] = set()

    def prepare(self, reference: str) -> PreparedAgent:
        """Find, validate and pack the agent, and store its bundles.

        Raises:
            AgentNotFound, InvalidAgent, BundleError: the agent is unusable.
            SubmissionRefused: a name means different agents in different places.
        """
        directory = self._search.find(reference)
        agent = load_agent(directory, os.environ)
        warnings = self._require_valid(agent)
        if agent.normal is not None:
            self._require_model(agent, agent.normal)
        agent = self._settled(agent)
        digest = self._pack(agent)
        unbuilt = tuple(self._unbuilt)  # agents that models may name are not built ahead
        if self._supervisors:
            self._choose = None  # nobody is asked about them, …
            self._reads_documents = False  # … and their commands are not run
            self._pack_named()
        graph = agent.runnable
        assert graph is not None, "an agent without errors can be run"
        agents, unavailable = self._children.of(digest)
        return PreparedAgent(
            agent.name,
            agent,
            graph,
            digest,
            agents,
            unavailable,
            (*warnings, *self._left_out),
            needs_facts=self._needs_facts,
            directory=self._directory_of_agents(agents) if self._supervisors else "",
            unbuilt=unbuilt,
            built=tuple(self._built),
            queues=frozenset(self._queues),
            path=SHIPPED if is_shipped(directory) else _absolute(directory),
        )

    def _settled(self, agent: Agent) -> Agent:
        """Return an agent that brings settings, also those of a recording: workers have others."""
        agent = with_default(agent, self._settings.skills_enabled)
        return agent if self._made_with is None else _as_recorded(agent, self._made_with)

    def _require_model(self, agent: Agent, normal: NormalAgent) -> None:
        """Check that a model is set for an agent whose runs have no parent to provide one."""
        if not normal.model and not self._settings.model:
            message = (
                "no model set here or as engine default: set 'model' in config.yaml, or "
                "SLEIPNIR_MODEL to provider:model"
            )
            raise InvalidAgent([agent.document.finding("E212", message, "model")])

    def _pack(self, agent: Agent) -> str:
        """Store the bundles of an agent and of all it may spawn; return its digest."""
        plans = plans_of(agent, self._settings, self._choices)
        bundle = self._bundle(agent, plans)
        self._put_bundle(bundle.digest, bundle.data)
        self._digests[agent.directory] = bundle.digest
        self._sizes[agent.directory] = len(bundle.data)
        self._unbuilt += unbuilt_bases(agent, self._settings, plans, bundle.digest)
        self._built += built_bases(plans, bundle.digest)
        if agent.runnable is not None:
            self._descriptions[agent.name] = agent.runnable.description
            self._queues |= named_in(queues_of(agent.runnable, None))
        self._needs_facts = self._needs_facts or _may_say_facts(agent)
        described = agent.normal or agent.graph
        if described is not None and described.can_spawn_agents:
            self._supervisors[bundle.digest] = agent.directory, described.spawnable_agents
        if agent.graph is not None:
            for _, node in agent.graph.nodes_of(AgentNode):
                self._pack_spawned(node.agent, agent.directory, bundle.digest)
        return bundle.digest

    def _bundle(self, agent: Agent, plans: Mapping[str, KnowledgePlan]) -> Bundle:
        settings, brought = self._settings, list[Part]()
        with TemporaryDirectory(prefix="sleipnir-documents-") as scratch:
            if plans and self._reads_documents:
                plans, brought = knowledge_documents.bundle_documents(
                    agent, plans, settings, self._choose, Path(scratch)
                )
            parts = parts_of(agent, settings, self._library, self._resources.skills(), plans)
            try:
                return pack([*parts, *brought], settings.bundle_limit_bytes)
            except BundleError as error:
                first = f"; or build its knowledge bases first: `sleipnir kb build {agent.name}`"
                message = f"agent '{agent.name}': {error}{first if brought else ''}"
                raise BundleError(message) from error

    def _pack_spawned(self, name: str, parent: Path, digest: str) -> None:
        """Pack the agent that a parent means by this name, unless that was done."""
        try:
            directory = self._search.find(name, parent)
        except AgentNotFound as error:
            self._children.lack(digest, name, str(error))
        else:
            self._pack_child(name, directory, digest)

    def _pack_child(self, name: str, directory: Path, parent_digest: str) -> None:
        known = directory.resolve()
        if known not in self._digests and known not in self._failed:
            # Only runs that try to start it fail; many never do.
            try:
                child = load_agent(directory, os.environ)
                self._require_valid(child)
            except (InvalidAgent, SubmissionRefused) as error:
                self._failed[known] = _first_error(error)
            else:
                self._pack_or_leave_out(self._settled(child))
        if known in self._digests:
            self._children.add(parent_digest, name, self._digests[known])
        else:
            self._children.lack(parent_digest, name, self._failed[known])

    def _pack_or_leave_out(self, child: Agent) -> None:
        try:
            self._pack(child)
        except BundleError as error:
            self._failed[child.directory] = str(error)
            message = f"left out, it cannot be started: {error}"
            self._left_out.append(Finding("W607", message, file=str(child.directory)))

    def _pack_named(self) -> None:
        """Pack every agent that a model may name.

        Raises:
            SubmissionRefused: there are too many, or they are too large.
        """
        most, most_bytes = (
            self._settings.spawn_bundle_limit,
            self._settings.spawn_bundle_limit_bytes,
        )
        done: set[str] = set()
        while left := self._supervisors.keys() - done:
            digest = min(left)
            done.add(digest)
            parent, permitted = self._supervisors[digest]
            for name, directory in self._search.names(parent).items():
                if permitted is not None and name not in permitted:
                    continue
                self._pack_child(name, directory, digest)
                if len(self._digests) > most or sum(self._sizes.values()) > most_bytes:
                    raise self._too_many(most, most_bytes)

    def _too_many(self, most: int, most_bytes: int) -> SubmissionRefused:
        largest = max(self._sizes, key=lambda each: self._sizes[each])
        return SubmissionRefused(
            f"an agent with can_spawn_agents is packed with all agents that it may start: "
            f"these are more than {most} (spawn_bundle_limit) or {most_bytes} bytes "
            f"(spawn_bundle_limit_bytes); the largest is '{largest.name}', with "
            f"{self._sizes[largest]} bytes"
        )

    def _directory_of_agents(self, agents: Mapping[str, str]) -> str:
        lines = []
        for name in names_in(agents):
            description = self._descriptions.get(name, "").strip().partition("\n")[0]
            about = f": {description[:_DESCRIPTION_CHARACTERS]}" if description else ""
            lines.append(f"- {name}{about}")
        return "\n".join(lines)

    def _require_valid(self, agent: Agent) -> tuple[Finding, ...]:
        """Validate an agent; return the warnings.

        Raises:
            InvalidAgent: there are errors.
        """
        findings = validate(agent, self._resources)
        can_be_asked = {_NOT_BUILT, _UNREADABLE}
        if self._choose is not None and _error_codes(findings) <= can_be_asked:
            self._choices.update(choices_for(agent, self._settings, self._choose))
            findings = validate(agent, self._resources) if self._choices else findings
        if self._choose is not None:  # it asks whether to leave them out
            findings = tuple(each for each in findings if each.code != _UNREADABLE)
        if _error_codes(findings):
            raise InvalidAgent(findings)
        return findings


def _may_say_facts(agent: Agent) -> bool:
    """Return whether the prompt of one of its models, or a skill, may be about the machine."""
    if agent.normal is not None:
        return True
    return agent.graph is not None and any(True for _ in choices_in(agent.graph))


def _as_recorded(agent: Agent, made_with: MadeWith) -> Agent:
    """Return an agent with the settings of a recording as its own defaults."""

    def settled(described: D) -> D:
        unset = {
            name: getattr(made_with, name)
            for name in ("model", "temperature", "top_p")
            if getattr(described, name) is None
        }
        servers = [] if made_with.mcp_server_support is False else described.mcp_servers
        return replace(described, mcp_servers=servers, **unset)

    return replace(
        agent,
        graph=None if agent.graph is None else settled(agent.graph),
        normal=None if agent.normal is None else settled(agent.normal),
    )


def _absolute(directory: Path) -> str:
    return os.path.abspath(directory)  # noqa: PTH100 - a link's own place counts


def _error_codes(findings: Iterable[Finding]) -> set[str]:
    return {finding.code for finding in findings if finding.severity == "error"}


def _first_error(error: InvalidAgent | SubmissionRefused) -> str:
    if not isinstance(error, InvalidAgent):
        return str(error)
    errors = [finding for finding in error.findings if finding.severity == "error"]
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{replace(errors[0], hint=None)}{more}"


def parts_of(
    agent: Agent,
    settings: Settings,
    library: ToolLibrary,
    skills: SkillLibrary,
    plans: Mapping[str, KnowledgePlan] | None = None,
) -> list[Part]:
    """Return the parts of an agent's bundle.

    Args:
        plans: plans of its knowledge bases; None: from its files and the settings.
    """
    graph = agent.runnable
    skill_files = skills.chosen(choices_in(graph)) if graph is not None else {}
    entries = [*agent.mcp_servers, *servers_of(skill_files.values())]
    filtered = [*_filtered_servers(graph), *filtered_by(skill_files.values())]
    servers = configured_servers(settings)[0].bundled(entries, filtered) if entries else None
    plans = plans_of(agent, settings) if plans is None else plans
    return bundle_parts(agent, library, config_dir(), servers, plans, skill_files)


def _filtered_servers(graph: Graph | None) -> Iterator[str]:
    """Yield the servers and aliases that filters of an agent's tools name."""
    if graph is not None:
        yield from graph.mcp_tools or ()
        for _, node in graph.nodes_of(LlmNode):
            yield from node.mcp_tools or ()


def _missing_loaders(settings: Settings) -> tuple[str, ...]:
    """Return the loaders of the extra `documents` that are missing, if workers are those here."""
    if settings.redis_url is not None and not connection.is_private(settings.redis_url):
        return ()
    return tuple(
        name
        for name, module in _EXTRA_LOADERS.items()
        if name not in settings.document_loaders and find_spec(module) is None
    )


def skill_directories(workdir: Path | None = None) -> tuple[Path, ...]:
    """Return the directories of skills; `workdir` is the current directory by default."""
    here = (workdir or Path()).absolute()
    return (here / ".sleipnir" / "skills", config_dir() / "skills", SHIPPED_SKILLS)


def resources_of(
    settings: Settings,
    search: AgentSearch,
    *,
    require_knowledge: bool = False,
    workdir: Path | None = None,
    rag_choices: BuildChoices | None = None,
) -> Resources:
    """Return the resources that agents are validated against."""
    mcp, mcp_findings = configured_servers(settings)
    return Resources(
        search=search,
        default_model=settings.model,
        model_aliases=settings.models.aliases.keys(),
        model_providers=settings.models.own_providers,
        lacks_reasoning=partial(lacks_reasoning, settings.models),
        lacks_functions=partial(lacks_functions, settings.models),
        lacks_attachments=partial(lacks_attachments, settings.models),
        rag_defaults=rag_defaults(settings),
        rag_choices={} if rag_choices is None else rag_choices,
        rag_template=settings.rag_template,
        rag_reranker_model=settings.rag_reranker_model,
        rag_absolute_paths=settings.rag_absolute_paths,
        document_bytes=settings.rag_document_max_bytes,
        document_loaders=loader_names(settings.document_loaders),
        missing_loaders=_missing_loaders(settings),
        has_local_model=find_spec("wordllama") is not None,
        knowledge_directory=data_dir() / "kb",
        max_branches=settings.max_branches,
        tool_directories=(config_dir() / "functions" / "tools", SHIPPED_TOOLS),
        skills_enabled=settings.skills_enabled,
        skill_directories=skill_directories(workdir),
        mapping_tools=settings.mapping_tools,
        visible_tools=settings.visible_tools,
        find_program=shutil.which,
        environment=os.environ,
        mcp=mcp,
        mcp_findings=mcp_findings,
        require_knowledge=require_knowledge,
    )
