"""The layout of an agent's bundle, which is that of a configuration directory.

agents/<name>/…          the agent
agents/.shared/…         files that agents in the same directory share, if any
functions/tools/<file>   the global tools it uses, and their `.env`
functions/utils/…        helpers of tools, if it has any tools
functions/skills/<name>/ the skills it may load, a SKILL.md each
functions/mcp.json       the servers it uses, with the names of secrets, not their values
knowledge.json           how its knowledge bases are, or are to be, built
documents/<node>.jsonl   documents of a knowledge base that only the submitting machine can read
parsed-graph.json        its graph at submission, parsed and checked
config.yaml              the normal agent, if the environment named another file than its own
manifest.json            its name, the aliases of tools at submission, and what the environment
                         has changed in a normal agent; for one of the engine's own agents, the
                         name of its graph
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.bundles.archive import Part
from sleipnir.graphs.env_file import ENV_FILE
from sleipnir.graphs.errors import BundleError
from sleipnir.lazy import lazy_imports

# Lazy: finding a file in a bundle does not need what it is made of.
with lazy_imports():
    from sleipnir.graphs import skills
    from sleipnir.graphs.bundles import parsed
    from sleipnir.graphs.document import overrides
    from sleipnir.graphs.knowledge import plan as knowledge_plan
    from sleipnir.graphs.tools import library as tool_library
    from sleipnir.graphs.tools import toolbox as toolboxes

if TYPE_CHECKING:
    from sleipnir.graphs.document.loader import Agent
    from sleipnir.graphs.knowledge.plan import KnowledgePlan
    from sleipnir.graphs.skills import SkillLibrary
    from sleipnir.graphs.tools.library import ToolLibrary

_AGENTS = "agents"
_SHARED = ".shared"
_TOOLS = "functions/tools"
_UTILS = "functions/utils"
_SKILLS = "functions/skills"
_MCP_FILE = "functions/mcp.json"
MANIFEST = "manifest.json"
CONFIG = "config.yaml"


def bundle_parts(
    agent: Agent,
    library: ToolLibrary,
    config_directory: Path,
    servers: Mapping[str, Any] | None,
    plans: Mapping[str, KnowledgePlan] | None = None,
    skill_files: Mapping[str, Path] | None = None,
) -> list[Part]:
    """Return everything a worker needs to run an agent.

    Args:
        agent: a graph or a normal agent.
        library: where its global tools come from.
        config_directory: the user's, with helpers and the environment of tools.
        servers: the content of the `mcp.json`; None: the agent uses no server.
        plans: for its knowledge bases, by node id.
        skill_files: of the skills it may load, by name; their tools are packed too.
    """
    toolbox = toolboxes.Toolbox(agent.global_tools, library, agent.directory)
    skill_files = skill_files or {}
    brought = skills.tool_files(skill_files.values(), library) if skill_files else []
    tool_files = list(dict.fromkeys([*toolbox.files, *brought]))
    parts = [Part(f"{_AGENTS}/{agent.name}", agent.directory)]
    parts += [Part(f"{_TOOLS}/{file.name}", file) for file in tool_files]
    parts += [
        Part(f"{_SKILLS}/{name}/{skills.SKILL_FILE}", file) for name, file in skill_files.items()
    ]
    has_tools = bool(toolbox.functions or tool_files)
    parts += _beside(agent, config_directory, tool_files, has_tools=has_tools)
    if servers is not None:
        parts.append(Part(_MCP_FILE, _json(servers)))
    if plans:
        parts.append(Part(knowledge_plan.PLAN_FILE, knowledge_plan.plans_text(plans)))
    manifest: dict[str, Any] = {"agent": agent.name, "aliases": dict(_aliases(tool_files, library))}
    if agent.overrides:
        manifest["overrides"] = dict(agent.overrides)
    if overrides.CONFIG_FILE in agent.overrides:
        parts.append(Part(CONFIG, agent.document.file))
        manifest["overrides"][overrides.CONFIG_FILE] = CONFIG
    parts.append(Part(MANIFEST, _json(manifest)))
    graph = agent.runnable
    if graph is not None:
        parts.append(Part(parsed.PARSED, parsed.parsed_text(graph)))
    return parts


def agent_directory(root: Path) -> Path:
    """Return the agent's own directory in an unpacked bundle.

    Raises:
        BundleError: the bundle has no manifest, or one that leads elsewhere.
    """
    name = str(_manifest(root)["agent"])
    if name in ("", "..") or PurePosixPath(name).name != name:
        raise BundleError(f"refused the bundle of '{name}': that is not a valid directory name")
    return root / _AGENTS / name


def built_in_graph(root: Path) -> str | None:
    """Return the graph of the engine's own that an unpacked bundle names, if it does.

    Raises:
        BundleError: the bundle has no manifest.
    """
    found = _manifest(root).get("graph")
    return None if found is None else str(found)


def overrides_in(root: Path) -> dict[str, str]:
    """Return what the environment had changed in a normal agent, from the manifest.

    Raises:
        BundleError: the bundle has no manifest.
    """
    return dict(_manifest(root).get("overrides", {}))


def library_of(root: Path) -> ToolLibrary:
    """Return the global tools in an unpacked bundle, under the names they had at submission.

    Raises:
        BundleError: the bundle has no manifest.
    """
    return tool_library.ToolLibrary([root / _TOOLS], _manifest(root)["aliases"])


def skills_of(root: Path) -> SkillLibrary:
    """Return the skills in an unpacked bundle."""
    return skills.SkillLibrary([root / _SKILLS])


def _beside(
    agent: Agent, config_directory: Path, tool_files: Collection[Path], *, has_tools: bool
) -> Iterator[Part]:
    """Yield what the agent needs besides its own directory, as far as it exists."""
    shared = agent.directory.parent / _SHARED
    if shared.is_dir():
        yield Part(f"{_AGENTS}/{_SHARED}", shared)
    environment = config_directory / _TOOLS / ENV_FILE
    if tool_files and environment.exists():
        yield Part(f"{_TOOLS}/{ENV_FILE}", environment)
    utils = config_directory / _UTILS
    if has_tools and utils.is_dir():
        yield Part(_UTILS, utils)


def _aliases(tool_files: Iterable[Path], library: ToolLibrary) -> Iterator[tuple[str, list[str]]]:
    """Yield the aliases that refer to files of this bundle only."""
    packed = set(tool_files)
    for alias in sorted(library.aliases):
        found = library.resolve(alias)
        if found.files and not found.unknown and packed.issuperset(found.files):
            yield alias, [file.name for file in found.files]


def _manifest(root: Path) -> Mapping[str, Any]:
    file = root / MANIFEST
    try:
        found: Mapping[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BundleError(f"the bundle has no usable {MANIFEST}: {error}") from error
    if not isinstance(found, dict) or not {"agent", "aliases"} <= found.keys():
        raise BundleError(f"the bundle has no usable {MANIFEST}: it does not name the agent")
    return found


def _json(value: Mapping[str, Any]) -> bytes:
    # Keep the order of keys: the first server that has a function wins.
    return (json.dumps(value, indent=2) + "\n").encode()
