"""Chains: the nodes that a map runs for each of its items."""

from __future__ import annotations

from sleipnir.graphs.schema import Graph, MapNode


def chain_of(graph: Graph, node: MapNode) -> tuple[str, ...]:
    """Return the nodes that `next` and `fallback` lead to from a map's branch, in file order.

    Of nodes that no map can run, only the branch itself is one of them.
    """
    nodes = graph.nodes
    found = {node.branch} & nodes.keys()
    waiting = list(found)
    while waiting:
        source = nodes[waiting.pop()]
        for way in source.exits() if source.MAY_BE_BRANCH else ():
            target = nodes.get(way.target)
            if target is not None and target.MAY_BE_BRANCH and way.target not in found:
                found.add(way.target)
                waiting.append(way.target)
    return tuple(node_id for node_id in nodes if node_id in found) if len(found) > 1 else (*found,)
