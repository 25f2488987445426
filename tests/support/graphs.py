"""Builds graphs from mappings, without a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.schema import NODE_TYPES, BaseNode, Graph, GraphSettings, Variable
from sleipnir.graphs.section_check import checked


def make_graph(fields: Mapping[str, Any]) -> Graph:
    """Return the graph with these fields, as in a file; nodes may be built already."""
    nodes = {name: _node(node) for name, node in fields["nodes"].items()}
    variables = [checked(Variable, variable) for variable in fields.get("variables", ())]
    settings = checked(GraphSettings, fields.get("settings", {}))
    return checked(Graph, {**fields, "nodes": nodes, "variables": variables, "settings": settings})


def _node(node: BaseNode | Mapping[str, Any]) -> BaseNode:
    return node if isinstance(node, BaseNode) else checked(NODE_TYPES[node["type"]], node)
