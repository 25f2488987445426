"""Rules about single routes: E101, E106, W014."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sleipnir.graphs.document.document import KeyPath, name_place
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.validator.context import Context, every_edge, near_names


def targets_exist(context: Context) -> Iterator[Finding]:
    """E101: every target must be a node."""
    known = context.graph.nodes.keys() | context.agent.broken_nodes
    dangling = [edge for edge in every_edge(context.graph) if edge.target not in known]
    hints = near_names((edge.target for edge in dangling), known)
    for edge in dangling:
        message = f"node '{edge.source}': {edge.label} names '{edge.target}', which does not exist"
        yield context.finding("E101", message, *edge.path, hint=hints.get(edge.target))


def next_lists_hold_targets(context: Context) -> Iterator[Finding]:
    """E106: an empty list leads nowhere; W014: a repeated target counts once."""
    for node_id, node in context.graph.nodes.items():
        for way in node.ways_on():
            path = ("nodes", node_id, *way.field)
            if way.to == [] and context.is_written(*path, 0):
                continue  # E008
            if way.to == []:
                _, name = name_place(path, "graph")
                yield context.finding("E106", f"node '{node_id}': '{name}' is an empty list", *path)
            elif isinstance(way.to, list):
                yield from repeated(context, way.to, path)


def repeated(context: Context, values: Iterable[str], path: KeyPath) -> Iterator[Finding]:
    """W014: a value that is repeated in a node's list."""
    seen = set()
    for index, value in enumerate(values):
        if value in seen:
            message = f"node '{path[1]}': '{value}' is listed twice"
            yield context.finding("W014", message, *path, index)
        seen.add(value)
