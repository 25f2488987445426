"""What of a graph decides how often its nodes are visited: where each of them may lead."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sleipnir.graphs.chains import chain_of
from sleipnir.graphs.schema import EndNode, Graph, MapNode, Node, distinct
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class FlowWay:
    """Nodes that a node may lead to, side by side; of its ways a visit takes one."""

    targets: tuple[str, ...]
    most: int | None = None  # open during so many visits of the node
    condition: str = ""


@dataclass(frozen=True, slots=True)
class Flow:
    """The nodes that one token may pass, from `start` until one of `ends`."""

    start: str
    ways: Mapping[str, tuple[FlowWay, ...]]
    ends: frozenset[str]
    anywhere: frozenset[str] = frozenset()  # nodes that may lead to any node at all
    cap: int = 100  # visits of one node after which a run fails


def flow_of(graph: Graph, anywhere: Collection[str] = ()) -> Flow:
    """Return the flow of runs in which no node fails: `fallback` is no way of theirs.

    Args:
        anywhere: script nodes that may lead to nodes which their fields do not name.
    """
    inside = _in_chains(graph)
    nodes = {node_id: node for node_id, node in graph.nodes.items() if node_id not in inside}
    return Flow(
        start=graph.start,
        ways={node_id: _ways(node, nodes) for node_id, node in nodes.items()},
        ends=frozenset(key for key, node in nodes.items() if isinstance(node, EndNode)),
        anywhere=frozenset(anywhere) & nodes.keys(),
        cap=graph.settings.max_loop_iterations,
    )


def flow_of_item(graph: Graph, node: MapNode, anywhere: Collection[str] = ()) -> Flow:
    """Return the flow of one item of a map: it ends at a node that leads nowhere."""
    nodes = {node_id: graph.nodes[node_id] for node_id in chain_of(graph, node)}
    ways = {node_id: _ways(each, nodes) for node_id, each in nodes.items()}
    return Flow(
        start=node.branch,
        ways=ways,
        ends=frozenset(key for key, each in ways.items() if not each),
        anywhere=frozenset(anywhere) & nodes.keys(),
        cap=graph.settings.max_loop_iterations,
    )


def _in_chains(graph: Graph) -> set[str]:
    """Return the nodes that only maps run."""
    return {node_id for _, node in graph.nodes_of(MapNode) for node_id in chain_of(graph, node)} - {
        graph.start
    }


def _ways(node: Node, nodes: Mapping[str, Node]) -> tuple[FlowWay, ...]:
    if isinstance(node, EndNode):
        return ()
    if node.IGNORES_NEXT:
        targets = dict.fromkeys(way.target for way in node.exits())
        ways = [FlowWay((target,)) for target in targets]
    else:
        ways = [FlowWay(distinct(way.to), way.most, way.label) for way in node.ways_on()]
    known = (replace(way, targets=tuple(t for t in way.targets if t in nodes)) for way in ways)
    return tuple(way for way in known if way.targets)
