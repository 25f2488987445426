"""Agents as this worker has them: bundles unpacked once, graphs parsed once."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock, Thread
from typing import Protocol

from sleipnir.graphs.bundles.archive import unpack
from sleipnir.graphs.bundles.layout import agent_directory, library_of
from sleipnir.graphs.dataflow import declared_writes, reads
from sleipnir.graphs.document.loader import load_agent
from sleipnir.graphs.env_file import ENV_FILE, read_env_file
from sleipnir.graphs.errors import BundleError, InvalidAgent
from sleipnir.graphs.files import reason
from sleipnir.graphs.mcp.config import McpConfig, read_mcp_config
from sleipnir.graphs.schema import AgentNode, Graph, LlmNode, MapNode
from sleipnir.graphs.template import references
from sleipnir.graphs.tools.toolbox import Toolbox
from sleipnir.scheduler.store.keys import parse_visit_id
from sleipnir.worker.llm.client import preload
from sleipnir.worker.masking import secrets_among

# Agents that one process keeps in memory: what there is more of is read again when it is needed.
_KEPT = 500


class BundleSource(Protocol):
    def get(self, digest: str) -> bytes | None: ...


# Without slots: the toolbox is kept in the instance.
@dataclass(frozen=True)
class UnpackedAgent:
    """An agent's graph and its files on this machine."""

    digest: str  # of its bundle
    graph: Graph
    root: Path  # of the bundle: a configuration directory in miniature
    directory: Path  # the agent's own, in there
    _keys: dict[str, frozenset[str] | None] = field(default_factory=dict)

    @cached_property
    def toolbox(self) -> Toolbox:
        """The functions its nodes may name, read off its tool files when first needed."""
        return Toolbox(self.graph.global_tools, library_of(self.root), self.directory)

    @cached_property
    def servers(self) -> McpConfig:
        """The MCP servers its bundle brought, secrets unresolved."""
        return read_mcp_config(self.root)[0]

    @cached_property
    def secrets(self) -> tuple[str, ...]:
        """What its programs get from `.env` files under the name of a key."""
        files = (self.directory / ENV_FILE, self.root / "functions" / "tools" / ENV_FILE)
        return tuple(value for file in files for value in secrets_among(read_env_file(file)))

    def executed_node(self, visit: str) -> str:
        """The node a visit executes: in a map's invocation the branch."""
        _, node_id, index = parse_visit_id(visit)
        node = self.graph.nodes[node_id]
        return node.branch if index is not None and isinstance(node, MapNode) else node_id

    def keys_for(self, node_id: str) -> frozenset[str] | None:
        """The state's keys a visit of the node needs; None for all of them.

        Those it reads, and those it writes: to see what did not change, and what reducers
        start from.
        """
        try:
            return self._keys[node_id]
        except KeyError:
            found = self._keys[node_id] = _needed(self.graph, node_id)
            return found


def _needed(graph: Graph, node_id: str) -> frozenset[str] | None:
    node = graph.nodes[node_id]
    if isinstance(node, LlmNode | AgentNode) and node.output_schema is not None:
        return None  # it may write keys that the schema does not list
    if isinstance(node, MapNode):
        # What its branch reads, each invocation fetches for itself.
        roots = {reference.root for reference in references(node.over)}
        return frozenset(root for root in roots if root is not None) | declared_writes(node)
    read = reads(graph, node_id)
    return None if read is None else read | declared_writes(node)


class AgentCache:
    """Unpacked agents by bundle digest.

    Args:
        directory: where they are unpacked.
        can_call: whether a model can be called from here, by its name in a graph; None is the
            name where the graph leaves the model to the engine.
    """

    def __init__(
        self,
        source: BundleSource,
        directory: Path,
        can_call: Callable[[str | None], bool] = lambda _model: False,
    ) -> None:
        self._source = source
        self._directory = directory
        self._can_call = can_call
        self._loaded: dict[str, UnpackedAgent] = {}
        self._lock = Lock()

    def get(self, digest: str) -> UnpackedAgent:
        """The agent of a bundle.

        Raises:
            BundleError: if the bundle is gone or damaged, or holds no usable graph.
        """
        found = self._loaded.get(digest)
        if found is None:
            with self._lock:
                found = self._loaded.get(digest) or self._load(digest)
                self._loaded[digest] = found
                if len(self._loaded) > _KEPT:
                    del self._loaded[next(iter(self._loaded))]
        return found

    def _load(self, digest: str) -> UnpackedAgent:
        target = self._directory / digest
        if not target.exists():
            data = self._source.get(digest)
            if data is None:
                raise BundleError(f"bundle {digest} is not in the store")
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            unpack(data, digest, target)
        os.utime(target)  # in use: see sleipnir.worker.cache_eviction
        try:
            agent = load_agent(agent_directory(target))
        except InvalidAgent as error:
            raise BundleError(f"bundle {digest}: {error}") from error
        except OSError:
            raise  # the machine's fault: another one, or this one later, can load it
        except Exception as error:
            raise BundleError(f"bundle {digest}: {error!r}") from error
        if agent.graph is None:
            raise BundleError("agents defined by a config.yaml are not available in this version")
        if self._calls_models(agent.graph):
            # The library takes seconds to import: better now, beside the nodes before the call.
            Thread(target=preload, name="preload", daemon=True).start()
        unpacked = UnpackedAgent(digest, agent.graph, target, agent.directory)
        try:
            _ = unpacked.secrets  # every visit needs them
        except OSError as error:
            raise BundleError(f"cannot read {error.filename}: {reason(error)}") from error
        return unpacked

    def _calls_models(self, graph: Graph) -> bool:
        """Whether a node will call a model, as far as one can tell."""
        return any(
            isinstance(node, LlmNode) and self._can_call(node.model or graph.model)
            for node in graph.nodes.values()
        )
