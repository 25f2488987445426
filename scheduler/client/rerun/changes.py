"""Compares two versions of an agent: which nodes of a run would behave differently."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from sleipnir.graphs.bundles.archive import unpack
from sleipnir.graphs.bundles.layout import MANIFEST
from sleipnir.graphs.bundles.packed import packed_agent, text_files_in
from sleipnir.graphs.bundles.parsed import PARSED
from sleipnir.graphs.chains import chain_of
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.knowledge.plan import PLAN_FILE
from sleipnir.graphs.schema import (
    REQUEST_SETTINGS,
    AgentNode,
    BaseNode,
    Graph,
    LlmNode,
    MapNode,
    RagNode,
    ReservedFields,
    ScriptNode,
    SkillFields,
)
from sleipnir.records import dataclass
from sleipnir.scheduler.process.temporary import OwnDirectory
from sleipnir.scheduler.runs.child_agents import digests_for
from sleipnir.scheduler.runs.model import Checkpoint
from sleipnir.scheduler.store.bundles import Bundles

# Graph fields that no node depends on, or that are compared separately.
_OF_NO_NODE = {
    *("name", "description", "version", "conversation_starters", "nodes"),
    *("start", "initial_state", "variables", "x-form", "queue"),
    *ReservedFields.fields_in_files(),
}
# Fields that only nodes with models depend on; all nodes depend on the others.
_OF_MODELS = {
    *("model", *REQUEST_SETTINGS, "params", "on_cut", "structured", "cache", "prompt_cache"),
    *("global_tools", "mcp_servers", "mcp_tools"),
    *("can_spawn_agents", "max_concurrent_agents", "spawnable_agents"),
    *SkillFields.fields_in_files(),
}
# Files that no run reads: the graph is compared as such, tests run elsewhere.
_READ_BY_NO_NODE = ("graph.yaml", "README.md", "tests/", "evals/", MANIFEST, PARSED)
_FILES_OF_MODELS = ("functions/", "tools.")


@dataclass(frozen=True, slots=True)
class AgentForm:
    """A packed version of an agent."""

    graph: Graph
    files: Mapping[str, str]  # hashes of the contents, by path
    agents: Mapping[str, str]  # bundle digests of what it may spawn, by name
    texts: frozenset[str] = frozenset()  # files whose texts are in its graph


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between a version of an agent and an earlier one."""

    nodes: frozenset[str]  # changed, removed or new nodes
    state: Mapping[str, Any]  # keys of `initial_state` with other values
    elsewhere: bool  # the start node, the keys or the variables differ

    def __bool__(self) -> bool:
        return bool(self.nodes or self.state or self.elsewhere)


def form_of(bundles: Bundles, digest: str, agents: Mapping[str, str]) -> AgentForm:
    """Load a version of an agent from its stored bundle.

    Args:
        agents: bundle digests of the agents it may spawn, by name, as its runs have them.

    Raises:
        BundleError, InvalidAgent: it is no longer stored, or can no longer be unpacked or loaded.
    """
    bundle = bundles.get(digest)
    if bundle is None:
        raise BundleError(f"the files of version {digest[:12]} of the agent are no longer stored")
    with OwnDirectory() as scratch:
        root = scratch.path / "bundle"
        unpack(bundle, digest, root)
        graph, directory = packed_agent(root)
        assert graph is not None, "only graphs are run"
        return AgentForm(
            graph,
            dict(_hashes(root, directory)),
            digests_for(agents, digest),
            text_files_in(root),
        )


def _hashes(root: Path, directory: Path) -> Iterator[tuple[str, str]]:
    """Yield path and hash of each file of a bundle; an agent's own paths are relative to it."""
    for folder, _, names in os.walk(root):
        for name in names:
            file = Path(folder, name)
            own = file.is_relative_to(directory)
            place = file.relative_to(directory if own else root).as_posix()
            yield place, hashlib.sha256(file.read_bytes()).hexdigest()


def changes_between(old: AgentForm, new: AgentForm) -> Changes:
    """Return how a newer version of an agent differs."""
    nodes = set(_changed_nodes(old, new))
    # What a map runs is visited through the map.
    nodes |= {
        name
        for graph in (old.graph, new.graph)
        for name, node in graph.nodes_of(MapNode)
        if not nodes.isdisjoint(chain_of(graph, node))
    }
    before, after = old.graph.initial_state, new.graph.initial_state
    return Changes(
        frozenset(nodes),
        {key: value for key, value in after.items() if _differs(before, after, key)},
        old.graph.start != new.graph.start
        or old.graph.variables != new.graph.variables
        or bool(before.keys() - after.keys()),
    )


def _changed_nodes(old: AgentForm, new: AgentForm) -> Iterator[str]:
    kinds = tuple(_changed_kinds(old, new))
    files = set(_changed_files(old, new))
    spawned = {
        name
        for name in {**old.agents, **new.agents}
        if old.agents.get(name) != new.agents.get(name)
    }
    for name in {**old.graph.nodes, **new.graph.nodes}:
        before, after = old.graph.nodes.get(name), new.graph.nodes.get(name)
        same = before is not None and after is not None and _text(before) == _text(after)
        if not same or isinstance(after, kinds) or _reads(after, files, spawned):
            yield name


def _reads(node: BaseNode | None, files: Collection[str], agents: Collection[str]) -> bool:
    """Return whether a node runs one of these scripts or agents."""
    match node:
        case ScriptNode():
            return Path(node.script).as_posix() in files
        case AgentNode():
            return node.agent in agents
    return False


def _changed_files(old: AgentForm, new: AgentForm) -> Iterator[str]:
    """Yield files that differ or exist in one version only, except those no run reads."""
    for place in sorted({*old.files, *new.files} - old.texts - new.texts):
        if not place.startswith(_READ_BY_NO_NODE) and old.files.get(place) != new.files.get(place):
            yield place


def _changed_kinds(old: AgentForm, new: AgentForm) -> Iterator[type[BaseNode]]:
    """Yield node types that are affected as a whole: by a setting, or a file that any may read."""
    before, after = old.graph, new.graph
    fields = {
        name
        for name in Graph.fields_in_files().keys() - _OF_NO_NODE
        if getattr(before, name) != getattr(after, name)
    }
    if fields - _OF_MODELS:
        yield BaseNode
    if fields or (after.can_spawn_agents and old.agents != new.agents):
        yield LlmNode
    scripts = {Path(node.script).as_posix() for _, node in after.nodes_of(ScriptNode)}
    for place in _changed_files(old, new):
        if place in scripts:
            continue
        if place.startswith(_FILES_OF_MODELS):
            yield LlmNode
        elif place == PLAN_FILE:
            yield RagNode
        else:  # a helper of scripts, or read by tools
            yield from (ScriptNode, LlmNode)


def _differs(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> bool:
    # As texts: to Python, 1 is True.
    return key not in before or repr(before[key]) != repr(after[key])


def _text(node: BaseNode) -> str:
    """Return all that makes a node act; so the order of its fields' entries, and 1 beside true."""
    return repr(replace(node, description=None))


def step_before(
    changes: Changes, checkpoints: Sequence[Checkpoint], unfinished: Collection[str]
) -> int | None:
    """Return the step after which to continue a run to redo what has changed; None: nothing has.

    Args:
        checkpoints: the run's whole history.
        unfinished: nodes of the step that the run began but did not finish.
    """
    if changes.state:
        return 0
    for step, checkpoint in islice(enumerate(checkpoints), 1, None):
        if not changes.nodes.isdisjoint(checkpoint.nodes):
            return step - 1
    return None if changes.nodes.isdisjoint(unfinished) else len(checkpoints) - 1
