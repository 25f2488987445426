"""A knowledge base in an agent's directory, for commands that build and inspect it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.document.loader import Agent
from sleipnir.graphs.errors import InvalidAgent
from sleipnir.graphs.files import reason
from sleipnir.graphs.knowledge import bases
from sleipnir.graphs.knowledge.build_order import BuildOrder
from sleipnir.graphs.knowledge.build_settings import BuildSettings, effective, wanted
from sleipnir.graphs.knowledge.local_files import local_files_hash
from sleipnir.graphs.knowledge.pointer import (
    Pointer,
    UnusablePointer,
    changes,
    pointer_file,
    read_pointer,
)
from sleipnir.graphs.knowledge.sources import loader_names
from sleipnir.graphs.schema import RagNode
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.client.knowledge.plans import rag_defaults
from sleipnir.scheduler.client.knowledge.pointers import write_pointer
from sleipnir.scheduler.config.directories import data_dir
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.knowledge.indexes import Indexes
from sleipnir.worker.knowledge.errors import IndexGone, KnowledgeFailed, StoredDamaged
from sleipnir.worker.knowledge.reading.reach import reach_here

with lazy_imports():
    from sleipnir.worker.knowledge import cache, manifest
    from sleipnir.worker.knowledge import search as searching
    from sleipnir.worker.knowledge.reading import loading

if TYPE_CHECKING:
    from sleipnir.worker.knowledge.by_hand import CommandModels
    from sleipnir.worker.knowledge.cache import IndexCache
    from sleipnir.worker.knowledge.index import Index
    from sleipnir.worker.knowledge.reading.documents import Loaded
    from sleipnir.worker.knowledge.search import Hit


@dataclass(frozen=True, slots=True)
class AgentBase:
    """A knowledge base, as its agent describes it and as it was built."""

    agent: Agent
    node_id: str
    node: RagNode | None  # None: that of a normal agent
    documents: Sequence[str]
    settings: Settings
    # Settings chosen in addition to those of the agent and the engine.
    chosen: Mapping[str, Any] = field(default_factory=dict)

    @property
    def top_k(self) -> int:
        pointer = self._usable_pointer()
        return self._own_top_k or (pointer and pointer.top_k) or self.settings.rag_top_k

    @property
    def _own_top_k(self) -> int | None:
        return self.node.top_k if self.node is not None else None

    @property
    def reranker_model(self) -> str | None:
        """The model that ranks the hits of a search; None: their ranks are fused."""
        return getattr(self.node, "reranker_model", None) or self.settings.rag_reranker_model

    @property
    def file(self) -> Path:
        """The file of its pointer, whether or not it exists."""
        return pointer_file(self.agent.directory, self.node_id, data_dir() / "kb")

    def pointer(self) -> Pointer | None:
        """Return the pointer of the knowledge base as it was built; None if it was not.

        Raises:
            KnowledgeFailed: its pointer is unusable.
        """
        try:
            return read_pointer(self.file)
        except UnusablePointer as error:
            raise KnowledgeFailed(f"{self.file} cannot be used, {error}; build it again") from error

    def order(self, run_id: str) -> BuildOrder:
        """Return the order for a build by a run with that id.

        Raises:
            KnowledgeFailed: settings are missing.
        """
        pointer = self._usable_pointer()
        return BuildOrder(
            agent=self.agent.name,
            node=self.node_id,
            settings=self._build_settings(pointer),
            entries=tuple(self.documents),
            documents=f"{run_id}:local",
            batch_size=getattr(self.node, "batch_size", None),
            previous=pointer.address if pointer is not None else None,
        )

    def load(self) -> Loaded:
        """Load its local documents as they are now."""
        return self._load(self.documents)

    def note(self, order: BuildOrder, built: Mapping[str, Any], indexes: Indexes) -> Pointer:
        """Record the build in the agent's directory.

        Raises:
            KnowledgeFailed: the file cannot be written.
            ArtifactStoreFailed: the index cannot be kept for it.
        """
        pointer = Pointer(
            address=built["address"],
            **order.settings.to_json(),
            top_k=self._own_top_k,
            documents=[document.strip() for document in self.documents],
            files=built["files"],
            chunks=built["chunks"],
            dimension=built["dimension"],
            files_hash=self.files_hash(),
            built_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        self._write(pointer)
        indexes.point_at(pointer.address)
        if order.previous not in (None, pointer.address):
            indexes.let_go(order.previous)
        return pointer

    def forget(self, indexes: Indexes) -> None:
        """Remove the record of the build.

        Raises:
            KnowledgeFailed: the file cannot be removed.
            ArtifactStoreFailed: its index cannot be released.
        """
        pointer = self._usable_pointer()
        try:
            self.file.unlink()
        except OSError as error:
            raise KnowledgeFailed(f"cannot remove {self.file}: {reason(error)}") from error
        if pointer is not None:
            indexes.let_go(pointer.address)

    def search(self, indexes: Indexes, models: CommandModels, query: str, top_k: int) -> list[Hit]:
        """Return the best chunks for a query.

        Raises:
            KnowledgeFailed: it was not built, is no longer stored, or is damaged.
        """
        found = self._index(indexes)
        embed = rerank = None
        if found.dimension is not None:
            embed = partial(models.embed, found.settings.embedding_model, found.dimension)
        if self.reranker_model is not None:
            rerank = partial(models.rerank, self.reranker_model)
        try:
            return searching.search(found, query, top_k, embed, rerank)
        except manifest.IndexUnusable as error:
            self._cache(indexes).forget(found.address)
            raise StoredDamaged(str(error)) from error

    def differences(self, indexes: Indexes) -> tuple[list[str], list[str]]:
        """Return the sources that have changed since the build, and those that no longer exist."""
        built = {source: content for source, _, content in self._index(indexes).manifest.sources}
        pages = {source for source in built if source.startswith(("http://", "https://"))}
        now = {found.source: found.content for found in self.load().documents.hashes}
        local = built.keys() - pages
        changed = [source for source in local if source in now and now[source] != built[source]]
        return sorted(changed), sorted(source for source in local if source not in now)

    def changes(self, pointer: Pointer) -> list[str]:
        """Return what would be built differently today apart from the files, one sentence each."""
        return changes(pointer, wanted(self.node, self._defaults(None)), self.documents)

    def files_hash(self) -> str:
        """Return one hash of the local documents as they are now."""
        return local_files_hash(
            self.agent.directory,
            self.documents,
            loader_names(self.settings.document_loaders),
            allow_absolute=self.settings.rag_absolute_paths,
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """The settings that a build lacks."""
        found = effective(self.node, self._defaults(self._usable_pointer()))
        return () if isinstance(found, BuildSettings) else found.missing

    def _usable_pointer(self) -> Pointer | None:
        try:
            return read_pointer(self.file)
        except UnusablePointer:
            return None

    def _defaults(self, pointer: Pointer | None) -> dict[str, Any]:
        """Return the settings used where the node has none; lastly those it was built with."""
        said = {**rag_defaults(self.settings), **self.chosen}
        built = {} if pointer is None else pointer.settings.to_json()
        return {name: built.get(name) if said[name] is None else said[name] for name in said}

    def _build_settings(self, pointer: Pointer | None) -> BuildSettings:
        found = effective(self.node, self._defaults(pointer))
        if not isinstance(found, BuildSettings):
            missing = ", ".join(found.missing)
            why = found.problem or f"set {missing} on the node or in the settings"
            raise KnowledgeFailed(why)
        return found

    def _load(self, entries: Sequence[str]) -> Loaded:
        reach = reach_here(self.settings)
        return loading.load_local(self.agent.directory, entries, reach, lambda: False)

    def _cache(self, indexes: Indexes) -> IndexCache:
        return cache.IndexCache(indexes, data_dir() / "kb-cache", self.settings.kb_cache_bytes)

    def _index(self, indexes: Indexes) -> Index:
        pointer = self.pointer()
        if pointer is None:
            raise KnowledgeFailed(
                f"it is not built: `sleipnir kb build {self.agent.name} {self.node_id}`"
            )
        indexes.point_at(pointer.address)
        found = self._cache(indexes).get(pointer.address)
        if found is None:
            raise IndexGone(self.agent.name, self.node_id)
        return found

    def _write(self, pointer: Pointer) -> None:
        try:
            write_pointer(self.agent.directory, self.node_id, pointer)
        except OSError as error:
            place = error.filename or self.file
            raise KnowledgeFailed(f"cannot write {place}: {reason(error)}") from error


def bases_of(agent: Agent, settings: Settings) -> list[AgentBase]:
    """Return the knowledge bases of an agent.

    Raises:
        InvalidAgent: its file is unusable.
    """
    if agent.runnable is None:
        raise InvalidAgent(agent.findings)
    return [
        AgentBase(agent, base.node_id, base.node, base.documents, settings)
        for base in bases.bases_of(agent)
    ]


def base_of(agent: Agent, node_id: str | None, settings: Settings) -> AgentBase:
    """Return one knowledge base of an agent; without a node, its only one.

    Raises:
        InvalidAgent: the agent's file is unusable.
        KnowledgeFailed: it has none, or the node does not tell which.
    """
    found = bases_of(agent, settings)
    names = ", ".join(base.node_id for base in found)
    if not found:
        raise KnowledgeFailed(f"agent '{agent.name}' has no knowledge base")
    if node_id is None and len(found) > 1:
        raise KnowledgeFailed(
            f"agent '{agent.name}' has several knowledge bases: {names}; name one"
        )
    for base in found:
        if node_id in (None, base.node_id):
            return base
    raise KnowledgeFailed(f"'{node_id}' is not a knowledge base of agent '{agent.name}': {names}")
