"""Rules about maps and their branches: E401 to E406, W018, W019."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.schema import MapNode
from sleipnir.graphs.template import is_identifier
from sleipnir.graphs.validator.context import Context


def branches_fit(context: Context) -> Iterator[Finding]:
    """E401: only nodes that compute something can be run per item."""
    for branch_id, maps in context.branches.items():
        branch = context.graph.nodes[branch_id]
        if branch.MAY_BE_BRANCH:
            yield from _branch_leads_nowhere(context, branch_id)
            yield from _branch_writes_only_its_result(context, branch_id)
            continue
        for map_id in maps:
            message = (
                f"map '{map_id}': branch '{branch_id}' is a {branch.type} node;"
                " only llm, agent, rag, script"
            )
            yield context.finding("E401", message, "nodes", map_id, "branch")


def _branch_leads_nowhere(context: Context, branch_id: str) -> Iterator[Finding]:
    branch = context.graph.nodes[branch_id]
    for code, field in (("E402", "next"), ("E403", "fallback"), ("E405", "output_schema")):
        if getattr(branch, field, None) is not None:
            message = f"map branch '{branch_id}' must not have '{field}'"
            yield context.finding(code, message, "nodes", branch_id, field)


def _branch_writes_only_its_result(context: Context, branch_id: str) -> Iterator[Finding]:
    """E404: every map takes the value of its own `output_key` and drops the rest."""
    updates = getattr(context.graph.nodes[branch_id], "state_updates", None) or {}
    output_keys = {node.output_key: None for node in context.branches[branch_id].values()}
    for key in updates:
        allowed = next((output_key for output_key in output_keys if output_key != key), None)
        if allowed is not None:
            message = f"map branch '{branch_id}' writes '{key}'; only '{allowed}' is allowed"
            yield context.finding("E404", message, "nodes", branch_id, "state_updates", key)


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
        if edge.target in context.branches and not edge.is_branch:
            message = f"node '{edge.target}' is a map branch and also a target of '{edge.source}'"
            yield context.finding("W018", message, *edge.path, node=edge.target)
