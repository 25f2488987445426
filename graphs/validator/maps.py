"""Rules about maps and their branches: E008, E401, E402, E406, E407, W018, W019, W034."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.dataflow import STATE_UPDATES, expressions, templates
from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.edges import Edge
from sleipnir.graphs.expressions.parser import parse
from sleipnir.graphs.schema import MapNode, distinct
from sleipnir.graphs.template import is_identifier, references
from sleipnir.graphs.validator.context import Context

_MAY_BE_BRANCH = "llm, agent, rag, script and set nodes"


def branches_fit(context: Context) -> Iterator[Finding]:
    """E401: only nodes that compute something can be run per item."""
    for map_id, node in context.graph.nodes_of(MapNode):
        branch = context.graph.nodes.get(node.branch)
        if branch is not None and not branch.MAY_BE_BRANCH:
            article = "an" if branch.type[0] in "aeiou" else "a"
            message = (
                f"map '{map_id}': branch '{node.branch}' is {article} {branch.type} node;"
                " only llm, agent, rag, script, set"
            )
            yield context.finding("E401", message, "nodes", map_id, "branch")


def chains_hold_what_a_map_can_run(context: Context) -> Iterator[Finding]:
    """E402: an item cannot leave its branch."""
    for edge, map_id in _edges_in_chains(context):
        target = context.graph.nodes[edge.target]
        if not target.MAY_BE_BRANCH:
            message = (
                f"map '{map_id}': '{edge.field[0]}' of '{edge.source}' leads to {target.type} node"
                f" '{edge.target}'; a branch may hold only {_MAY_BE_BRANCH}"
            )
            hint = "an item ends at a node without 'next'; the map's own 'next' leads on"
            yield context.finding("E402", message, *edge.path, hint=hint)


def items_go_one_way(context: Context) -> Iterator[Finding]:
    """E407: an item is at one node at a time."""
    for node_id, maps in context.branches.items():
        node = context.graph.nodes[node_id]
        if node.MAY_BE_BRANCH and any(len(distinct(way.to)) > 1 for way in node.ways_on()):
            message = f"branch node '{node_id}' of map '{min(maps)}' fans out; an item goes one way"
            yield context.finding("E407", message, "nodes", node_id, "next")


def _edges_in_chains(context: Context) -> Iterator[tuple[Edge, str]]:
    """Yield the edges that leave nodes of chains, each with the first map that runs its node."""
    for edge in context.edges:
        maps = context.branches.get(edge.source)
        if maps and context.graph.nodes[edge.source].MAY_BE_BRANCH:
            yield edge, min(maps)


def writes_of_chains_are_used(context: Context) -> Iterator[Finding]:
    """W034: of what a chain writes, a map keeps the value of its `output_key` only."""
    for node_id, maps in context.branches.items():
        updates = getattr(context.graph.nodes[node_id], STATE_UPDATES, None) or {}
        if not updates or not context.is_of_items_only(node_id):
            continue
        used = {node.output_key for node in maps.values()}
        for key in updates:
            if key not in used and not any(_may_read(context, map_id, key) for map_id in maps):
                message = f"branch node '{node_id}' writes '{key}', which is lost"
                path = ("nodes", node_id, STATE_UPDATES, key)
                yield context.finding("W034", message, *path)


def _may_read(context: Context, map_id: str, key: str) -> bool:
    """Return whether a node of a map's chain reads a key; a script reads all."""
    for node_id in context.chains[map_id]:
        node = context.graph.nodes[node_id]
        if node.READS_ALL or any(
            reference.root == key
            for template in templates(node)
            for reference in references(template.text)
            if not template.sees_scoped or key != node.SCOPED
        ):
            return True
        if any(key in parse(text).names for _, text in expressions(node)):
            return True
    return False


def windows_are_numbers(context: Context) -> Iterator[Finding]:
    """E008: a text in `max_concurrency` must be a template."""
    for map_id, node in context.graph.nodes_of(MapNode):
        text = node.max_concurrency
        if not isinstance(text, str) or any(found.path for found in references(text)):
            continue
        number = text.strip() if text.strip().isdecimal() else "4"
        hint = f"write {number} without quotes"
        message = (
            f"node '{map_id}'.max_concurrency: expected an integer or a template, got a string"
        )
        yield context.finding("E008", message, "nodes", map_id, "max_concurrency", hint=hint)


def keys_can_be_named(context: Context) -> Iterator[Finding]:
    """E406: templates must be able to read what a map binds or collects; W019: distinct keys."""
    for map_id, node in context.graph.nodes_of(MapNode):
        keys = {
            "as": node.item_name,
            "collect_into": node.collect_into,
            "output_key": node.output_key,
        }
        for field, key in keys.items():
            if not is_identifier(key):
                message = f"map '{map_id}': '{key}' cannot be named by a template"
                yield context.finding("E406", message, "nodes", map_id, field)
        if node.item_name == node.output_key:
            message = f"map '{map_id}': 'as' and 'output_key' are both '{node.item_name}'"
            yield context.finding("W019", message, "nodes", map_id, "as")


def branches_are_no_targets(context: Context) -> Iterator[Finding]:
    """W018: a branch is run by its map; a route to it is probably a mistake."""
    for edge in context.edges:
        maps = context.branches.get(edge.target, {})
        from_within = any(edge.source in context.chains[map_id] for map_id in maps)
        if maps and not edge.is_branch and not from_within:
            message = f"node '{edge.target}' is a map branch and also a target of '{edge.source}'"
            yield context.finding("W018", message, *edge.path, node=edge.target)
