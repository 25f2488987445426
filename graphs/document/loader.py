"""Loads the agent in a directory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from sleipnir.graphs.document.document import Document, read_document
from sleipnir.graphs.document.finding import Finding, in_order
from sleipnir.graphs.document.overrides import CONFIG_FILE, given_overrides, overridden
from sleipnir.graphs.document.reading import Reading
from sleipnir.graphs.document.references import AGENT_FILES, GRAPH_FILE
from sleipnir.graphs.document.text_files import with_texts
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.graphs.normal_agent import NormalAgent, graph_of
from sleipnir.graphs.schema import Graph
from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent as its directory describes it, including errors."""

    name: str  # of the directory, which identifies the agent
    directory: Path  # absolute, links resolved
    document: Document
    graph: Graph | None  # None for a normal agent, or if there are no usable nodes
    findings: tuple[Finding, ...]  # of loading; validation adds to them
    # Left out of the graph because of errors; references to them are not errors as well.
    broken_nodes: frozenset[str] = frozenset()
    normal: NormalAgent | None = None  # None for a graph agent
    # What the environment has changed in a normal agent, as `overrides.given_overrides` returns it.
    overrides: Mapping[str, str] = field(default_factory=dict)
    is_graph: bool = True

    @property
    def runnable(self) -> Graph | None:
        """The graph that the engine runs, made for a normal agent; None if there is none.

        A normal agent's is created by each call.
        """
        return graph_of(self.normal, self.name) if self.normal is not None else self.graph

    @property
    def global_tools(self) -> list[str]:
        """The entries of its file; empty if the file has no usable ones."""
        described = self.graph or self.normal
        return described.global_tools if described is not None else []

    @property
    def mcp_servers(self) -> list[str]:
        """The entries of its file; empty if the file has no usable ones."""
        described = self.graph or self.normal
        return described.mcp_servers if described is not None else []


def load_agent(path: Path, environment: Mapping[str, str] | None = None) -> Agent:
    """Load the agent in a directory, or the one that a graph.yaml or config.yaml belongs to.

    Args:
        environment: may change a normal agent; None: nothing is changed.

    Raises:
        InvalidAgent: the agent file is missing, not the only one, or cannot be read. All other
            errors are in `findings`, and the graph lacks what they are about.
    """
    directory = path.parent if path.name in AGENT_FILES else path
    name = Path(os.path.abspath(directory)).name  # noqa: PTH100 - a link's own name counts
    overrides = given_overrides(name, environment or {})
    file = _agent_file(directory)
    is_graph = file.name == GRAPH_FILE
    if not is_graph and CONFIG_FILE in overrides:
        file = Path(overrides[CONFIG_FILE])
    document, findings = read_document(file)
    if document is None:
        raise InvalidAgent(findings)
    if is_graph:
        document, more = with_texts(document, directory.resolve())
        findings = [*findings, *more]
    reading = Reading(document, name)
    graph = reading.graph() if is_graph else None
    normal = None if is_graph else reading.normal_agent()
    if normal is not None:
        normal, more = overridden(normal, name, overrides, document)
        findings = [*findings, *more]
    return Agent(
        name=name,
        directory=directory.resolve(),
        document=document,
        graph=graph,
        findings=in_order([*findings, *reading.findings]),
        broken_nodes=frozenset(reading.broken_nodes),
        normal=normal,
        is_graph=is_graph,
        overrides=overrides if normal is not None else {},
    )


def _agent_file(directory: Path) -> Path:
    present = [name for name in AGENT_FILES if (directory / name).exists()]
    if len(present) == 1:
        return directory / present[0]
    if present:
        message = f"{directory} holds both config.yaml and graph.yaml; keep one"
        raise InvalidAgent([Finding("E001", message, file=str(directory))])
    message = f"{directory} holds neither config.yaml nor graph.yaml"
    raise InvalidAgent([Finding("E002", message, hint=_hint(directory), file=str(directory))])


def _hint(directory: Path) -> str | None:
    if not directory.exists():
        return "there is no such directory"
    for name in AGENT_FILES:
        misnamed = directory / name.replace(".yaml", ".yml")
        if misnamed.exists():
            return f"rename {misnamed.name} to {name}"
    return None
