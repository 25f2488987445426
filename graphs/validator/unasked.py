"""Finds nodes with tools that ask for consent, which runs of graph agents confirm themselves."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.schema import LlmNode
from sleipnir.graphs.tools.consent import may_ask
from sleipnir.graphs.validator.context import Context
from sleipnir.graphs.validator.resources import Resources
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Unasked:
    """A node, and its tools that would ask if runs of graph agents did."""

    node: str
    tools: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"node": self.node, "tools": list(self.tools)}


def unasked(agent: Agent, resources: Resources) -> tuple[Unasked, ...]:
    """Return the nodes of a graph agent in file order; none for a normal agent, whose runs ask."""
    if agent.graph is None:
        return ()
    toolbox = Context(agent, agent.graph, resources).toolbox
    found = (
        Unasked(
            node_id,
            tuple(f.name for f in toolbox.select(node.tools or ()).functions if may_ask(f)),
        )
        for node_id, node in agent.graph.nodes_of(LlmNode)
    )
    return tuple(each for each in found if each.tools)
