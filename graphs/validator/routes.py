"""Rules about single routes, and the queues that nodes wait in: E101, E106, E224, W014."""

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


def queues_are_served(context: Context) -> Iterator[Finding]:
    """E224: a queue that no worker serves would be waited for without an end."""
    served = context.resources.queues
    if served is None:
        return
    named: list[tuple[KeyPath, str | None]] = [(("queue",), context.graph.queue)]
    named += [(("nodes", key, "queue"), node.queue) for key, node in context.graph.nodes.items()]
    unserved = [(path, queue) for path, queue in named if queue and queue not in served]
    hints = near_names((queue for _, queue in unserved), served)
    for path, queue in unserved:
        message = f"queue '{queue}' is not served; these are: {', '.join(sorted(served))}"
        yield context.finding("E224", message, *path, hint=hints.get(queue))


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
