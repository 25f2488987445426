"""Rules about what is written without effect: W006, W011, W012."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sleipnir.graphs.document.finding import Finding
from sleipnir.graphs.schema import AgentNode, LlmNode, RagNode, ReservedFields, SkillFields
from sleipnir.graphs.validator.context import Context, place
from sleipnir.graphs.validator.edges import ignores_next

_SKILLS = tuple(SkillFields.model_fields)
_OF_GRAPHS = tuple(ReservedFields.model_fields)
_RESERVED = {
    LlmNode: _SKILLS,
    RagNode: ("extractor_model", "extractor_prompt", "graph_hops", "driver"),
}


def next_is_heeded(context: Context) -> Iterator[Finding]:
    """W006: approvals and ends route by other means."""
    for node_id, node in context.graph.nodes.items():
        if ignores_next(node) and node.next is not None:
            message = f"{node.type} node '{node_id}' ignores 'next'"
            yield context.finding("W006", message, "nodes", node_id, "next")


def no_reserved_fields(context: Context) -> Iterator[Finding]:
    """W011: fields of a newer dialect are accepted and do nothing."""
    places: list[tuple[str, ...]] = [(field,) for field in (*_SKILLS, *_OF_GRAPHS)]
    for node_id, node in context.graph.nodes.items():
        places += [("nodes", node_id, field) for field in _RESERVED.get(type(node), ())]
    for path in places:
        if context.is_written(*path):
            found = context.finding("W011", f"{place(*path)} has no effect here", *path)
            yield replace(found, subject=place(*path))


def agent_nodes_bring_no_tools(context: Context) -> Iterator[Finding]:
    """W012: a child owns its tools."""
    for node_id, node in context.graph.nodes_of(AgentNode):
        if node.tools is not None:
            message = f"agent node '{node_id}' ignores 'tools'; the child owns its tools"
            yield context.finding("W012", message, "nodes", node_id, "tools")
