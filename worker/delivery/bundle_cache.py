"""The bundle cache of a worker: bundles unpacked once, graphs parsed once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Lock
from typing import Protocol

from sleipnir.graphs.bundles.archive import unpack
from sleipnir.graphs.bundles.packed import packed_agent
from sleipnir.graphs.errors import BundleError, InvalidAgent
from sleipnir.graphs.files import reason
from sleipnir.graphs.normal_agent import TurnNode
from sleipnir.graphs.schema import Graph, LlmNode
from sleipnir.worker.executors import import_executors
from sleipnir.worker.visit.loaded_agent import LoadedAgent

# Agents a process keeps in memory; the oldest is dropped and read again when needed.
_KEPT = 500


class BundleSource(Protocol):
    def get(self, digest: str) -> bytes | None: ...


class BundleCache:
    """Loaded agents by bundle digest.

    Args:
        directory: where bundles are unpacked.
        expect_calls: called with the models that an agent will call, by their names in the graph;
            None stands for the engine's default model.
    """

    def __init__(
        self,
        source: BundleSource,
        directory: Path,
        expect_calls: Callable[[Iterable[str | None]], None] = lambda _models: None,
    ) -> None:
        self._source = source
        self._directory = directory
        self._expect_calls = expect_calls
        self._loaded: dict[str, LoadedAgent] = {}
        self._lock = Lock()

    def get(self, digest: str) -> LoadedAgent:
        """Return the agent of a bundle.

        Raises:
            BundleError: if the bundle is missing or damaged, or holds no usable graph.
        """
        found = self._loaded.get(digest)
        if found is None:
            with self._lock:
                found = self._loaded.get(digest) or self._load(digest)
                self._loaded[digest] = found
                if len(self._loaded) > _KEPT:
                    del self._loaded[next(iter(self._loaded))]
        return found

    def _load(self, digest: str) -> LoadedAgent:
        target = self._directory / digest
        if not target.exists():
            data = self._source.get(digest)
            if data is None:
                raise BundleError(f"bundle {digest} is not in the store")
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            unpack(data, digest, target)
        os.utime(target)  # in use: see sleipnir.worker.process.eviction
        try:
            graph, directory = packed_agent(target)
        except InvalidAgent as error:
            raise BundleError(f"bundle {digest}: {error}") from error
        except BundleError:
            raise
        except OSError:
            raise  # the machine's fault: another worker, or this one later, may be able to load it
        except Exception as error:
            raise BundleError(f"bundle {digest}: {error!r}") from error
        if graph is None:
            raise BundleError(f"bundle {digest}: it has no usable graph")
        # Import before a visit takes its lease, whose time would pass meanwhile.
        import_executors({node.type for node in graph.nodes.values()})
        # A library may take seconds to import: start now, while nodes before the first call
        # execute.
        models = _models_in(graph)
        if models:
            self._expect_calls(models)
        loaded = LoadedAgent(digest, graph, target, directory)
        try:
            _ = loaded.secrets  # read now: every visit needs them
        except OSError as error:
            raise BundleError(f"cannot read {error.filename}: {reason(error)}") from error
        return loaded


def _models_in(graph: Graph) -> set[str | None]:
    """Return the models that a graph's nodes call, by their names in the graph."""
    asking = (LlmNode, TurnNode)
    return {
        getattr(node, "model", None) or graph.model
        for node in graph.nodes.values()
        if isinstance(node, asking)
    }
