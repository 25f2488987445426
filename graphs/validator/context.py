"""What every rule works on: the agent, its resources, and facts that several rules share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from functools import cached_property

from sleipnir.graphs.chains import chain_of
from sleipnir.graphs.dataflow import chain_writes
from sleipnir.graphs.document.document import KeyPath, name_place
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.document.shape import near
from sleipnir.graphs.edges import (
    Adjacency,
    Edge,
    declared_edges,
    next_edges,
    reachable,
)
from sleipnir.graphs.schema import Graph, MapNode, ScriptNode, Variable
from sleipnir.graphs.tools.toolbox import Toolbox
from sleipnir.graphs.validator.resources import Resources
from sleipnir.graphs.validator.scripts import KeyWords, key_words, named_by_scripts
from sleipnir.records import dataclass

# Similar names are searched among all known ones: useful for a few typos, too slow for thousands.
MAX_HINTS = 10


# Without slots, as cached properties are stored in the instance.
@dataclass(frozen=True)
class Context:
    """One agent under validation."""

    agent: Agent
    graph: Graph
    resources: Resources

    def finding(
        self,
        code: str,
        message: str,
        *path: str | int,
        node: str | None = None,
        hint: str | None = None,
        offset: int = 0,
    ) -> Finding:
        """Return a finding about the key at `path`; `node` overrides the one in the path.

        `offset` is that of a character in the key's text.
        """
        found = self.agent.document.finding(code, message, *path, hint=hint, offset=offset)
        return replace(found, node=node) if node is not None else found

    def is_written(self, *path: str | int) -> bool:
        """Return whether the file has a value there, even if loading dropped it as broken."""
        part = self.agent.document.at(*path)
        return part is not None and part.value is not None

    def variables(self) -> Iterator[tuple[Variable, tuple[str | int, ...]]]:
        """Yield each variable with the place of its name, except those that loading dropped."""
        entries = self.agent.document.at("variables")
        left = list(self.graph.variables)
        for index in entries.parts if entries is not None else ():
            path = ("variables", index, "name")
            name = self.agent.document.at(*path)
            if left and name is not None and name.value == left[0].name:
                yield left.pop(0), path

    @cached_property
    def toolbox(self) -> Toolbox:
        """All functions of the agent except those of its MCP servers."""
        library = self.resources.library()
        return Toolbox(self.agent.global_tools, library, self.agent.directory)

    @cached_property
    def is_whole(self) -> bool:
        """False if loading found errors: what seems to be missing may then only be misspelt."""
        return not any(found.code.startswith("E0") for found in self.agent.findings)

    @cached_property
    def known_keys(self) -> frozenset[str]:
        """Keys that exist at some time: seeded, given as variables, or written by a node.

        What maps run writes nothing outside their items.
        """
        graph = self.graph
        given = (variable.name for variable in graph.variables if not variable.secret)
        written = (
            key
            for node_id, node in graph.nodes.items()
            if not self.is_of_items_only(node_id)
            for key in node.written_keys()
        )
        # A failed script leaves its reason.
        error = ("error",) if any(graph.nodes_of(ScriptNode)) else ()
        return frozenset(("initial_prompt", *error, *graph.initial_state, *given, *written))

    def keys_of_item(self, node_id: str) -> frozenset[str]:
        """Return the further keys that a node run by maps may read: items, and their writes."""
        maps = self.branches.get(node_id, {}).values()
        return frozenset().union(*(chain_writes(self.graph, each) for each in maps)) | {
            each.item_name for each in maps
        }

    def is_of_items_only(self, node_id: str) -> bool:
        """Return whether only maps run the node, as far as declared edges tell."""
        return node_id in self.branches and node_id not in self.entered

    @cached_property
    def key_words(self) -> KeyWords | None:
        """The words in which scripts may name state keys; None if they may set any key."""
        return key_words(self.agent.directory, self.graph)

    @cached_property
    def chains(self) -> dict[str, tuple[str, ...]]:
        """The nodes that each map runs for an item, by its id."""
        return {map_id: chain_of(self.graph, node) for map_id, node in self.graph.nodes_of(MapNode)}

    @cached_property
    def branches(self) -> dict[str, dict[str, MapNode]]:
        """For each node that maps run, those maps by id."""
        found: dict[str, dict[str, MapNode]] = {}
        for map_id, node in self.graph.nodes_of(MapNode):
            for node_id in self.chains[map_id]:
                found.setdefault(node_id, {})[map_id] = node
        return found

    @cached_property
    def edges(self) -> list[Edge]:
        """All declared edges between nodes that exist."""
        nodes = self.graph.nodes
        every = (edge for node_id in nodes for edge in declared_edges(node_id, nodes[node_id]))
        return [edge for edge in every if edge.target in nodes]

    @cached_property
    def adjacency(self) -> Adjacency:
        """The declared edges, as successors by node."""
        return self._adjacency(self.edges)

    @cached_property
    def unchosen(self) -> Adjacency:
        """The declared edges that a run takes without a choice."""
        return self._adjacency(edge for edge in self.edges if not edge.is_choice)

    @cached_property
    def entered(self) -> set[str]:
        """Nodes that a run reaches by ordinary edges, and so not as the branch of a map."""
        return self._reachable(self._adjacency(edge for edge in self.edges if not edge.is_branch))

    @cached_property
    def reached(self) -> set[str]:
        """Nodes that a run reaches by declared edges."""
        return self._reachable(self.adjacency)

    @cached_property
    def attainable(self) -> set[str]:
        """Nodes that a run reaches by declared edges, or from nodes that a script's text names."""
        return self._reachable(self.adjacency, named_by_scripts(self.agent.directory, self.graph))

    @cached_property
    def fan_outs(self) -> list[list[Edge]]:
        """The parallel groups: edges to two or more nodes that one field of `next` lists."""
        groups: dict[tuple[str, KeyPath], list[Edge]] = {}
        for edge in self.edges:
            if edge.way is not None and not self.is_of_items_only(edge.source):
                groups.setdefault((edge.source, edge.way.field), []).append(edge)
        return [edges for edges in groups.values() if len(edges) > 1]

    def _adjacency(self, edges: Iterable[Edge]) -> Adjacency:
        adjacency: dict[str, list[str]] = {node_id: [] for node_id in self.graph.nodes}
        for edge in edges:
            adjacency[edge.source].append(edge.target)
        return adjacency

    def _reachable(self, adjacency: Adjacency, more: Collection[str] = ()) -> set[str]:
        start = [self.graph.start] if self.graph.start in self.graph.nodes else []
        return reachable([*start, *more], adjacency)


def every_edge(graph: Graph) -> Iterator[Edge]:
    """Yield all routes in the file, including those to unknown nodes and in an ignored `next`."""
    for node_id, node in graph.nodes.items():
        yield from declared_edges(node_id, node)
        if node.IGNORES_NEXT:
            yield from next_edges(node_id, node)


def place(*path: str | int, root: str = "graph") -> str:
    """Return a path as messages name it: `node 'plan'.prompt`."""
    where, name = name_place(path, root)
    return f"{where}.{name}" if name else where


def near_names(unknown: Iterable[str], known: Collection[str]) -> dict[str, str]:
    """Return a hint for each unknown name that resembles a known one."""
    names = set(unknown)
    if len(names) > MAX_HINTS:
        return {}
    hints = ((name, near(name, known)) for name in names)
    return {name: hint for name, hint in hints if hint is not None}
