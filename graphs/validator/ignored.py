"""Rules about fields without effect: W006, W011, W012."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sleipnir.graphs.document.finding import Finding, listing
from sleipnir.graphs.schema import AgentNode, LlmNode, ReservedFields
from sleipnir.graphs.validator.context import Context, place

_OF_GRAPHS = tuple(ReservedFields.fields_in_files())


def next_has_effect(context: Context) -> Iterator[Finding]:
    """W006: approval and end nodes route by other means."""
    for node_id, node in context.graph.nodes.items():
        if node.IGNORES_NEXT and node.next is not None:
            message = f"{node.type} node '{node_id}' ignores 'next'"
            yield context.finding("W006", message, "nodes", node_id, "next")


def no_reserved_fields(context: Context) -> Iterator[Finding]:
    """W011: fields of a newer dialect are accepted without effect."""
    places: list[tuple[str, ...]] = [(field,) for field in _OF_GRAPHS]
    for node_id, node in context.graph.nodes.items():
        places += [("nodes", node_id, field) for field in node.WITHOUT_EFFECT]
    for path in places:
        if context.is_written(*path):
            found = context.finding("W011", f"{place(*path)} has no effect here", *path)
            yield replace(found, subject=place(*path))


def efforts_reach_models_that_reason(context: Context) -> Iterator[Finding]:
    """W011: `reasoning_effort` for a model known not to reason."""
    graph = context.graph
    shared = graph.model or context.resources.default_model
    takers: list[str | None] = []  # models of nodes that use the graph's effort
    for node_id, node in graph.nodes_of(LlmNode):
        model = node.model or shared
        if node.reasoning_effort is None:
            takers.append(model)
        else:
            yield from _without_reasoning(context, [model], "nodes", node_id, "reasoning_effort")
    if graph.reasoning_effort is not None:
        yield from _without_reasoning(context, takers, "reasoning_effort")


def _without_reasoning(
    context: Context, models: Sequence[str | None], *path: str
) -> Iterator[Finding]:
    """Yield a finding if none of these models reasons and there are any."""
    lacks = context.resources.lacks_reasoning
    if lacks is None or not models or not all(model and lacks(model) for model in models):
        return
    names = listing(sorted({model for model in models if model}))
    message = f"{place(*path)} has no effect here"
    hint = f"models that do not reason: {names}; remove it, or choose another model"
    found = context.finding("W011", message, *path, hint=hint)
    yield replace(found, subject=place(*path))


def agent_nodes_bring_no_tools(context: Context) -> Iterator[Finding]:
    """W012: a child has its own tools."""
    for node_id, node in context.graph.nodes_of(AgentNode):
        if node.tools is not None:
            message = f"agent node '{node_id}' ignores 'tools'; the child owns its tools"
            yield context.finding("W012", message, "nodes", node_id, "tools")
