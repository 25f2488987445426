"""Versions of agents: digests of what makes them act, whatever else lies in their directories."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from sleipnir.graphs.bundles import archive
from sleipnir.graphs.bundles.layout import CONFIG, agent_directory, built_in_graph
from sleipnir.graphs.bundles.packed import packed_agent, text_files_in
from sleipnir.graphs.errors import GraphError
from sleipnir.graphs.schema import AgentNode
from sleipnir.records import dataclass
from sleipnir.scheduler.process.temporary import OwnDirectory

_DEFINITIONS = ("graph.yaml", "config.yaml")
_PROGRAMS = (".py", ".sh", ".ts", ".js")
# What is in them acts only in tests.
_NOT_ACTING = ("tests", "evals")
_DIGITS = 12


@dataclass(frozen=True, slots=True)
class _Own:
    """What an agent has itself."""

    digest: str
    children: tuple[str, ...]  # agents that its nodes run


class StoredBundles(Protocol):
    """Where bundles are."""

    def get(self, digest: str, /) -> bytes | None:
        """Return a bundle; None if it is not there."""


class AgentVersions:
    """Tells the versions of agents that runs were submitted with."""

    def __init__(self, bundles: StoredBundles) -> None:
        self._bundles = bundles
        self._known: dict[str, _Own | None] = {}

    def of(self, digest: str, agents: Mapping[str, str]) -> str | None:
        """Return the version of a bundled agent; None if its files are no longer stored.

        Args:
            agents: the bundles of the agents that it may start, by name.
        """
        found = self._full(digest, agents, frozenset())
        return None if found is None else found[:_DIGITS]

    def _full(self, digest: str, agents: Mapping[str, str], above: frozenset[str]) -> str | None:
        own = self._own(digest)
        if own is None:
            return None
        whole = hashlib.sha256(own.digest.encode())
        for name in own.children:
            child = agents.get(name)
            # An agent may run itself, or one that is not found here.
            is_new = child is not None and child not in above | {digest}
            version = self._full(child, agents, above | {digest}) if child and is_new else ""
            whole.update(f"\0{name}\0{version}".encode())
        return whole.hexdigest()

    def _own(self, digest: str) -> _Own | None:
        if digest not in self._known:
            self._known[digest] = self._read(digest)
        return self._known[digest]

    def _read(self, digest: str) -> _Own | None:
        data = self._bundles.get(digest)
        if data is None:
            return None
        with OwnDirectory() as scratch:
            root = scratch.path / "bundle"
            archive.unpack(data, digest, root)
            try:
                graph, _ = packed_agent(root)
            except (GraphError, OSError):  # another version of the engine has packed it
                graph = None
            children = (
                () if graph is None else {node.agent for _, node in graph.nodes_of(AgentNode)}
            )
            return _Own(_digest_of(root), tuple(sorted(children)))


def _digest_of(root: Path) -> str:
    whole = hashlib.sha256()
    for name, file in sorted(_acting_files(root)):
        whole.update(f"{name}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\0".encode())
    return whole.hexdigest()


def _acting_files(root: Path) -> Iterator[tuple[str, Path]]:
    if built_in_graph(root) is not None:
        return
    if (root / CONFIG).is_file():
        yield CONFIG, root / CONFIG
    directory = agent_directory(root)
    texts = _text_files(root)
    for file in directory.rglob("*"):
        path = file.relative_to(directory)
        is_definition = path.as_posix() in texts or (
            path.name in _DEFINITIONS and len(path.parts) == 1
        )
        is_program = path.suffix.lower() in _PROGRAMS and path.parts[0] not in _NOT_ACTING
        if (is_definition or is_program) and file.is_file():
            yield f"agent/{path.as_posix()}", file


def _text_files(root: Path) -> frozenset[str]:
    try:
        return text_files_in(root)
    except GraphError:  # another version of the engine has packed it
        return frozenset()
