"""An agent as a visit sees it: its graph, and its files on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.graphs.bundles.layout import library_of, skills_of
from sleipnir.graphs.chains import chain_of
from sleipnir.graphs.dataflow import reads, state_reads
from sleipnir.graphs.normal_agent import is_normal
from sleipnir.graphs.schema import AgentNode, Graph, LlmNode, MapNode
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.bundle_secrets import bundle_secrets
from sleipnir.scheduler.runs.ids import VisitId

# Lazy, as few agents have all of them.
with lazy_imports():
    from sleipnir.graphs import skills as skill_files
    from sleipnir.graphs.knowledge import plan as knowledge_plans
    from sleipnir.graphs.mcp import reading as mcp_reading
    from sleipnir.graphs.tools import toolbox as toolboxes

if TYPE_CHECKING:
    from sleipnir.graphs.knowledge.plan import KnowledgePlan
    from sleipnir.graphs.mcp.config import McpConfig
    from sleipnir.graphs.mcp.filters import Layer
    from sleipnir.graphs.skills import Skill, SkillLibrary
    from sleipnir.graphs.tools.function import Function
    from sleipnir.graphs.tools.toolbox import Toolbox


# Without slots, as `cached_property` stores its values in the instance.
@dataclass(frozen=True)
class LoadedAgent:
    """An agent's graph and its files on this machine."""

    digest: str
    graph: Graph
    root: Path  # of the bundle; laid out as a configuration directory
    directory: Path  # the agent's own, below `root`
    _keys: dict[str | tuple[str, str], frozenset[str] | None] = field(default_factory=dict)
    _chains: dict[str, tuple[str, ...]] = field(default_factory=dict)
    _skills: dict[str, tuple[Skill, tuple[Function, ...]]] = field(default_factory=dict)

    @cached_property
    def toolbox(self) -> Toolbox:
        """The functions its nodes may name, read from its tool files when first needed."""
        return toolboxes.Toolbox(self.graph.global_tools, library_of(self.root), self.directory)

    @cached_property
    def servers(self) -> McpConfig:
        """The MCP servers in its bundle, with secrets unresolved."""
        return mcp_reading.read_mcp_config(self.root)[0]

    @cached_property
    def filters(self) -> Sequence[Layer]:
        """What tools of MCP servers must pass for any of its models to have them."""
        return (*self.servers.layers, self.servers.layer("the agent", self.graph.mcp_tools))

    @cached_property
    def skills(self) -> SkillLibrary:
        """The skills in its bundle."""
        return skills_of(self.root)

    def skill(self, name: str) -> tuple[Skill, tuple[Function, ...]]:
        """Return a skill, and the functions of its tools.

        Raises:
            UnusableSkill: it cannot be used, or is not in the bundle.
        """
        found = self._skills.get(name)
        if found is None:
            found = self._skills[name] = self._read_skill(name)
        return found

    def _read_skill(self, name: str) -> tuple[Skill, tuple[Function, ...]]:
        file = self.skills.find(name)
        if file is None:
            raise skill_files.UnusableSkill("there is no such skill")
        skill = skill_files.read_skill(file)
        for server in self.servers.resolve(skill.servers):
            if server not in self.servers.servers:
                raise skill_files.UnusableSkill(f"its MCP server '{server}' is not configured")
        return skill, skill_files.functions_of(skill, library_of(self.root))

    @cached_property
    def knowledge(self) -> dict[str, KnowledgePlan]:
        """The knowledge bases of its nodes, by node id.

        Raises:
            BundleError: the bundle does not describe them.
        """
        return knowledge_plans.read_plans(self.root)

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """The values in its `.env` files and of its MCP servers that nobody may see."""
        return bundle_secrets(self.root, self.directory)

    def executed_node(self, visit: VisitId) -> str:
        """Return the node that a visit executes; for a map's item, one of the chain."""
        if visit.item is None:
            return visit.node
        return visit.later_node or self._map(visit.node).branch

    def chain_of(self, map_id: str) -> tuple[str, ...]:
        """Return the nodes that a map runs for each item, in file order."""
        try:
            return self._chains[map_id]
        except KeyError:
            found = self._chains[map_id] = chain_of(self.graph, self._map(map_id))
            return found

    def keys_for(self, visit: VisitId) -> frozenset[str] | None:
        """Return the keys of the state that a visit needs; None for all of them.

        These are the keys that its node reads and those it writes: the old values tell what has
        changed, and reducers start from them. An item's visit may have to give the map the result
        that an earlier one has written.
        """
        node_id, is_later = self.executed_node(visit), visit.later_node is not None
        place = (visit.node, node_id) if is_later else node_id
        try:
            return self._keys[place]
        except KeyError:
            found = _needed(self.graph, node_id)
            if found is not None and is_later:
                found |= {self._map(visit.node).output_key}
            self._keys[place] = found
            return found

    def _map(self, map_id: str) -> MapNode:
        node = self.graph.nodes[map_id]
        assert isinstance(node, MapNode)
        return node


def _needed(graph: Graph, node_id: str) -> frozenset[str] | None:
    node = graph.nodes[node_id]
    if is_normal(graph):
        return None  # it needs all earlier turns
    if isinstance(node, LlmNode | AgentNode) and node.output_schema is not None:
        return None  # it may write keys that the schema does not list
    if isinstance(node, MapNode):
        # What the branch reads is fetched by each invocation itself.
        return frozenset(read.key for read in state_reads(node)) | node.written_keys()
    read = reads(graph, node_id)
    return None if read is None else read | node.written_keys()
