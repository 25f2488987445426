"""How many model calls one visit of a node makes."""

from __future__ import annotations

from sleipnir.graphs.plan.interval import Interval
from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.graphs.skills import choice_of

# Of the model that finds a value in a reply that does not conform to the schema.
EXTRACTIONS = 2


def calls_of_visit(graph: Graph, node: LlmNode) -> Interval:
    """Return how many calls a visit of an llm node makes; those of agents it starts left out."""
    return Interval(
        0 if is_cached(graph, node) else 1, most_of_attempt(graph, node) * graph.attempts_of(node)
    )


def most_of_attempt(graph: Graph, node: LlmNode) -> int:
    """Return the most calls of one attempt."""
    rounds = rounds_of(node)
    turns = node.max_iterations if may_call(graph, node) else rounds
    return turns + (EXTRACTIONS * rounds if node.output_schema is not None else 0)


def rounds_of(node: LlmNode) -> int:
    """Return how often its output may be checked in one attempt."""
    return 1 + node.max_checks if node.check else 1


def may_call(graph: Graph, node: LlmNode) -> bool:
    """Return whether its model may call functions, and so reply several times."""
    return bool(
        graph.listed_tools(node) or graph.offers_agents(node) or choice_of(node, graph) is not None
    )


def is_cached(graph: Graph, node: LlmNode) -> bool:
    """Return whether the reply may be one that was given before."""
    return bool(graph.cache if node.cache is None else node.cache)
