"""The agent in an unpacked bundle."""

from __future__ import annotations

from pathlib import Path

from sleipnir.graphs.bundles.layout import agent_directory, built_in_graph
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.knowledge.build_graph import BUILD_AGENT, BUILD_GRAPH
from sleipnir.graphs.schema import Graph

_BUILT_IN = {BUILD_AGENT: BUILD_GRAPH}


def packed_agent(root: Path) -> tuple[Graph | None, Path]:
    """The graph in an unpacked bundle, None of a normal agent, and the agent's own directory.

    Raises:
        BundleError, InvalidAgent, OSError: it cannot be loaded.
    """
    name = built_in_graph(root)
    if name is None:
        agent = load_agent(agent_directory(root))
        return agent.graph, agent.directory
    if name not in _BUILT_IN:
        raise BundleError(f"this version has no graph '{name}' of its own")
    return _BUILT_IN[name], root
