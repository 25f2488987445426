"""The knowledge bases of one worker: found by address, fetched, or built if nobody has yet."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.knowledge.address import address_of
from sleipnir.graphs.knowledge.plan import KnowledgePlan
from sleipnir.graphs.knowledge.sources import classify, is_absolute
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.knowledge.indexes import Indexes
from sleipnir.scheduler.store.knowledge.vectors import KeptVectors
from sleipnir.worker.knowledge.calls import EmbeddingCalls
from sleipnir.worker.knowledge.errors import BuildFailed, KnowledgeFailed, NotYet

# They import faiss and whoosh, which most workers do without.
with lazy_imports():
    from sleipnir.worker.knowledge import building, cache, loading
    from sleipnir.worker.knowledge import search as searching

if TYPE_CHECKING:
    from sleipnir.worker.knowledge.cache import IndexCache
    from sleipnir.worker.knowledge.index import Index, SourceText
    from sleipnir.worker.knowledge.search import Hit
    from sleipnir.worker.llm.models import Models
    from sleipnir.worker.visit.context import Visit

# How long a visit rests while another worker builds.
_BUILT_AFTER_S = 2.0

_SEARCHES = ThreadPoolExecutor(32, thread_name_prefix="search")


@dataclass(frozen=True, slots=True)
class FoundPassages:
    """What a search gave."""

    hits: Sequence[Hit]
    warnings: tuple[str, ...] = ()

    @property
    def output(self) -> dict[str, Any]:
        """`{"context", "sources"}`."""
        return searching.output_of(self.hits)


class KnowledgeBases:
    """Those that visits of one worker process search; may be used from many threads."""

    def __init__(
        self,
        indexes: Indexes,
        vectors: KeptVectors,
        models: Models,
        settings: Settings,
        directory: Path,
    ) -> None:
        self._indexes = indexes
        self._vectors = vectors
        self._models = models
        self._settings = settings
        self._directory = directory
        self._kept: IndexCache | None = None
        # Of what was loaded before, by bundle and node: neither ever changes.
        self._addresses: dict[tuple[str, str], str] = {}

    def search(
        self, visit: Visit[Any], query: str, top_k: int | None, timeout_s: float
    ) -> FoundPassages:
        """The best chunks of a node's knowledge base, which is built if it has to be.

        Args:
            top_k: how many; None: as the knowledge base says.
            timeout_s: for the search alone.

        Raises:
            KnowledgeFailed: it cannot be built or searched.
            NotYet: later, perhaps.
        """
        plan = visit.agent.knowledge.get(visit.node_id)
        if plan is None:
            raise KnowledgeFailed("the knowledge base is not built, and cannot be built unasked")
        if getattr(visit.node, "reranker_model", None):
            raise KnowledgeFailed("reranker models are not available in this version")
        calls = EmbeddingCalls(visit, plan, self._models, self._vectors, self._settings)
        index, warnings = self._index(visit, plan, calls)
        embed = None if index.dimension is None else partial(calls.of_query, index.dimension)
        searched = _SEARCHES.submit(searching.search, index, query, top_k or plan.top_k, embed)
        try:
            return FoundPassages(searched.result(timeout_s), warnings)
        except TookTooLong as error:
            raise KnowledgeFailed(f"the search took longer than {timeout_s:g} s") from error

    @property
    def _cache(self) -> IndexCache:
        if self._kept is None:
            limit_bytes = self._settings.kb_cache_bytes
            self._kept = cache.IndexCache(self._indexes, self._directory, limit_bytes)
        return self._kept

    def _index(
        self, visit: Visit[Any], plan: KnowledgePlan, calls: EmbeddingCalls
    ) -> tuple[Index, tuple[str, ...]]:
        """The index of a node, and what there is to warn of."""
        node = (visit.agent.digest, visit.node_id)
        documents: Sequence[SourceText] = ()
        address = self._addresses.get(node) or plan.address or self._noted(visit)
        if address is None:
            documents = self._load(visit)
            address = address_of(plan.settings, (document.hash for document in documents))
        self._addresses[node] = address
        found = self._cache.get(address)
        if found is not None:
            return found, ()
        warnings: tuple[str, ...] = ()
        if plan.address is not None:
            warnings = ("the knowledge base was no longer stored and is built anew",)
        return self._built(visit, plan, documents or self._load(visit), calls), warnings

    def _built(
        self,
        visit: Visit[Any],
        plan: KnowledgePlan,
        documents: Sequence[SourceText],
        calls: EmbeddingCalls,
    ) -> Index:
        """The index of these documents, built here unless another worker is at it."""
        address = address_of(plan.settings, (document.hash for document in documents))
        with self._indexes.lease(address, secrets.token_hex(8)) as is_ours:
            if not is_ours:
                raise NotYet(_BUILT_AFTER_S, "its knowledge base is being built")
            if not self._indexes.has(address):
                built = building.build(
                    plan.settings, documents, calls.of_chunks, self._settings.kb_max_bytes
                )
                self._indexes.put(address, built.packed)
                calls.let_go()
        if _has_pages(visit.node.documents):
            self._indexes.note_address(visit.agent.digest, visit.node_id, address)
        self._addresses[(visit.agent.digest, visit.node_id)] = address
        index = self._cache.get(address)
        if index is None:
            raise KnowledgeFailed("the index that was just built is gone from Redis")
        return index

    def _noted(self, visit: Visit[Any]) -> str | None:
        """The address of pages as they were when they were first read."""
        if not _has_pages(visit.node.documents):
            return None
        return self._indexes.address_of(visit.agent.digest, visit.node_id)

    def _load(self, visit: Visit[Any]) -> Sequence[SourceText]:
        """The documents of a node, from its bundle and the web."""
        entries = visit.node.documents
        elsewhere = [entry for entry in entries if is_absolute(classify(entry).target)]
        if elsewhere:
            raise BuildFailed(
                f"'{elsewhere[0]}' is on the machine of the agent: build the knowledge base "
                f"there with `sleipnir kb build {visit.graph.name} {visit.node_id}`"
            )
        reach = loading.Reach(
            self._settings.rag_document_max_bytes,
            private_addresses=self._settings.allow_private_addresses,
        )
        loaded = loading.load(visit.directory.resolve(), entries, reach, visit.cancelled.is_set)
        if visit.cancelled.is_set():
            raise BuildFailed("cancelled: the run is over")
        return loaded.require_whole()


def _has_pages(entries: Sequence[str]) -> bool:
    return any(classify(entry).kind in ("url", "crawl") for entry in entries)
