"""Rules about all routes together: E102, E103, E104, W001, W002, W007."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sleipnir.graphs.document.finding import Finding, listing
from sleipnir.graphs.edges import cycles
from sleipnir.graphs.schema import EndNode
from sleipnir.graphs.validator.context import Context


def no_static_cycles(context: Context) -> Iterator[Finding]:
    """E102: a loop in which nothing chooses would never end."""
    found = list(cycles(context.unchosen))
    closing = {(cycle[-2], cycle[-1]): cycle for cycle in found}
    for edge in context.edges:
        cycle = closing.pop((edge.source, edge.target), None)
        if cycle is not None:
            message = f"cycle of declared edges: {listing(cycle, ' -> ')}"
            hint = "let a condition close the loop: next: [{when: …, to: …}, …]"
            yield context.finding("E102", message, *edge.path, hint=hint)


def some_end_exists(context: Context) -> Iterator[Finding]:
    """E103; W002 if no edge leads to an end, nor from a node that a script names."""
    ends = [node_id for node_id, _ in context.graph.nodes_of(EndNode)]
    if not ends:
        if context.graph.nodes and not context.agent.broken_nodes:
            message = "the graph has no end node and could never finish"
            yield context.finding("E103", message, "nodes")
    elif context.is_whole and context.attainable.isdisjoint(ends):
        message = (
            "no end node is reachable by declared edges (a script's _next may still lead to one)"
        )
        yield context.finding("W002", message, "start")


def next_is_given(context: Context) -> Iterator[Finding]:
    """E104 for a node without `next` that runs reach; W007 if only `_next` may lead to it."""
    for node_id, node in context.graph.nodes.items():
        path = ("nodes", node_id, "next")
        if not node.NEEDS_NEXT or context.is_written(*path):
            continue
        if node_id in context.entered:
            yield context.finding("E104", f"{node.type} node '{node_id}' needs 'next'", *path)
        elif context.is_whole and node_id not in context.branches:
            message = f"{node.type} node '{node_id}' has no 'next' and would fail if reached"
            yield context.finding("W007", message, *path)


def nodes_are_reachable(context: Context) -> Iterator[Finding]:
    """W001: nodes that neither declared edges nor scripts' texts lead to."""
    if not context.is_whole:
        return
    for node_id in context.graph.nodes:
        if node_id not in context.attainable:
            message = (
                f"node '{node_id}' is unreachable by declared edges"
                " (a script's _next may still lead there)"
            )
            found = context.finding("W001", message, "nodes", node_id)
            yield replace(found, subject=found.node or "")
