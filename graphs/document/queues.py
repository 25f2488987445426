"""Named queues, which say which workers may execute a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sleipnir.graphs.schema import Graph

# Of a name, a regular expression.
NAME = "[a-z0-9][a-z0-9-]{0,31}"
DEFAULT_QUEUE = "default"
# The entry of nodes that have none of their own.
OTHERS = ""


def queues_of(graph: Graph, submitted: str | None) -> dict[str, str]:
    """Return the queues of a run's nodes; empty if all are in the default one.

    Args:
        submitted: the queue, as given at submission, of nodes that name none.

    Returns:
        The queue by node, and of `OTHERS`, as far as it is needed.
    """
    others = graph.queue or submitted or DEFAULT_QUEUE
    named = {
        node_id: node.queue
        for node_id, node in graph.nodes.items()
        if node.queue is not None and node.queue != others
    }
    return named if others == DEFAULT_QUEUE else {OTHERS: others, **named}


def queue_of(queues: Mapping[str, str], node: str) -> str:
    """Return the queue of a node, of what `queues_of` returns."""
    return queues.get(node) or queues.get(OTHERS) or DEFAULT_QUEUE


def named_in(queues: Mapping[str, str]) -> frozenset[str]:
    """Return the queues besides the default one in what `queues_of` returns."""
    return frozenset(queues.values()) - {DEFAULT_QUEUE}


def queues_of_nodes(queues: Mapping[str, str], nodes: Iterable[str]) -> frozenset[str]:
    """Return the queues of these nodes."""
    return frozenset(queue_of(queues, node) for node in nodes)
