"""The agent in an unpacked bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.graphs.bundles.layout import CONFIG, agent_directory, built_in_graph, overrides_in
from sleipnir.graphs.document.references import GRAPH_FILE
from sleipnir.graphs.errors import BundleError
from sleipnir.lazy import lazy_imports

# Lazy: reading only the nodes' types does not need the classes of a graph.
with lazy_imports():
    from sleipnir.graphs.bundles import parsed
    from sleipnir.graphs.document import document as documents
    from sleipnir.graphs.document import loader, overrides, text_files
    from sleipnir.graphs.knowledge import build_graph

if TYPE_CHECKING:
    from sleipnir.graphs.document.document import Document
    from sleipnir.graphs.document.loader import Agent
    from sleipnir.graphs.schema import Graph


def packed_agent(root: Path) -> tuple[Graph | None, Path]:
    """Return the graph that the engine runs, if usable, and the agent's own directory.

    Raises:
        BundleError, InvalidAgent, OSError: it cannot be loaded.
    """
    name = built_in_graph(root)
    if name is None:
        graph = parsed.parsed_graph(root)
        if graph is not None:
            return graph, agent_directory(root)
        agent = _bundled_agent(root)
        return agent.runnable, agent.directory
    if name != build_graph.BUILD_AGENT:
        raise BundleError(f"this version has no graph '{name}' of its own")
    return build_graph.BUILD_GRAPH, root


def _bundled_agent(root: Path) -> Agent:
    """Load the agent with the changes that the environment had made at submission."""
    directory, changes = agent_directory(root), overrides_in(root)
    if overrides.CONFIG_FILE in changes:
        changes[overrides.CONFIG_FILE] = str(root / CONFIG)
    prefix = overrides.environment_prefix(directory.name)
    environment = {prefix + name: text for name, text in changes.items()}
    return loader.load_agent(directory, environment)


def node_types(root: Path) -> dict[str, str]:
    """Return the types of the nodes of the graph in an unpacked bundle.

    Raises:
        BundleError, OSError: it cannot be read.
    """
    if built_in_graph(root) is not None:
        graph, _ = packed_agent(root)
        return {name: node.type for name, node in graph.nodes.items()} if graph else {}
    document = _document(root)
    return {name: node["type"] for name, node in document.data["nodes"].items()} if document else {}


def text_files_in(root: Path) -> frozenset[str]:
    """Return the files that nodes of the graph in an unpacked bundle take texts from.

    Raises:
        BundleError: it cannot be read.
    """
    document = None if built_in_graph(root) is not None else _document(root)
    return frozenset() if document is None else text_files.named_files(document)


def _document(root: Path) -> Document | None:
    document, _ = documents.read_document(agent_directory(root) / GRAPH_FILE)
    return document
