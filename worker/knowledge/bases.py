"""The knowledge bases of one worker: found by address, fetched, or to be built."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.knowledge.address import address_of
from sleipnir.graphs.knowledge.bases import DescribedBase
from sleipnir.graphs.knowledge.build_order import BuildOrder
from sleipnir.graphs.knowledge.plan import KnowledgePlan
from sleipnir.graphs.knowledge.sources import is_absolute
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import ArtifactStoreFailed
from sleipnir.scheduler.runs.failures import BUDGET_REFUSES
from sleipnir.scheduler.runs.ids import new_child_id
from sleipnir.scheduler.store.connection import is_private
from sleipnir.scheduler.store.knowledge.build_claims import BuildClaims
from sleipnir.scheduler.store.knowledge.build_files import BuildFiles
from sleipnir.scheduler.store.knowledge.indexes import Indexes
from sleipnir.scheduler.store.knowledge.vectors import KeptVectors
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.knowledge.build_stages import (
    BuildStages,
    BuildStores,
    StageDone,
)
from sleipnir.worker.knowledge.calls import EmbeddingCalls
from sleipnir.worker.knowledge.errors import (
    BeingBuilt,
    BuildFailed,
    KnowledgeFailed,
    NotBuilt,
    StoredDamaged,
)
from sleipnir.worker.knowledge.reading.reach import reach_elsewhere, reach_here
from sleipnir.worker.knowledge.reranking import RerankCalls

# Lazy: they import faiss and whoosh, which most workers do not need.
with lazy_imports():
    from sleipnir.worker.knowledge import cache, manifest
    from sleipnir.worker.knowledge import search as searching
    from sleipnir.worker.knowledge.reading import loading, taken_along

if TYPE_CHECKING:
    from sleipnir.worker.knowledge.cache import IndexCache
    from sleipnir.worker.knowledge.index import Index
    from sleipnir.worker.knowledge.reading.documents import Loaded
    from sleipnir.worker.knowledge.search import Hit, Rerank
    from sleipnir.worker.llm.models import Models
    from sleipnir.worker.visit.context import Visit

_TOUCHED_EVERY_S = 3600.0

_SEARCHES = ThreadPoolExecutor(32, thread_name_prefix="search")


@dataclass(frozen=True, slots=True)
class FoundPassages:
    """The result of a search."""

    hits: Sequence[Hit]
    warnings: tuple[str, ...] = ()

    @property
    def output(self) -> dict[str, Any]:
        """`{"context", "sources"}`."""
        return searching.output_of(self.hits)


class KnowledgeBases:
    """The knowledge bases that visits of one worker process search; thread-safe."""

    def __init__(self, store: RunStore, models: Models, directory: Path) -> None:
        settings = store.settings
        self._settings = settings
        self._models = models
        self._directory = directory
        self._indexes = Indexes(store.client, settings)
        self._vectors = KeptVectors(store.client)
        self._files = BuildFiles(store.client)
        self._claims = BuildClaims(store)
        # Addresses searched before, by bundle and node; neither ever changes.
        self._addresses: dict[tuple[str, str], str] = {}
        self._touched: dict[str, float] = {}  # address → time on the `monotonic` clock

    def search(
        self,
        visit: Visit[Any],
        base: DescribedBase,
        query: str,
        timeout_s: float | None,
        transcript: Transcript | None = None,
    ) -> FoundPassages:
        """Return the best chunks of a knowledge base of the visit's agent.

        Args:
            timeout_s: for the search alone; None: unlimited.
            transcript: of the conversation that searches; None: the visit has none.

        Raises:
            KnowledgeFailed: it cannot be searched.
            NotBuilt: the run must build it first.
            NotYet, BeingBuilt: try again later.
        """
        plan = visit.agent.knowledge.get(base.node_id)
        if plan is None:
            raise KnowledgeFailed("the knowledge base is not built, and cannot be built unasked")
        transcript = transcript or Transcript(visit)
        try:
            found, warnings = self._index(visit, base, plan)
        except ArtifactStoreFailed as error:
            raise KnowledgeFailed(str(error)) from error
        calls = EmbeddingCalls(
            visit,
            plan.settings.embedding_model,
            base.batch_size,
            self._models,
            self._vectors,
            self._settings,
            transcript,
        )
        embed = None if found.dimension is None else partial(calls.of_query, found.dimension)
        rerank, began = self._reranking(visit, plan, transcript), monotonic()
        searched = _SEARCHES.submit(searching.search, found, query, plan.top_k, embed, rerank)
        try:
            hits = searched.result(timeout_s)
        except TookTooLong as error:
            raise KnowledgeFailed(f"the search took longer than {timeout_s:g} s") from error
        except manifest.IndexUnusable as error:
            self._cache.forget(found.address)
            raise StoredDamaged(str(error)) from error
        if visit.services.calls is not None:
            visit.services.calls.searched(base.node_id, len(hits), began)
        return FoundPassages(hits, warnings)

    def _reranking(
        self, visit: Visit[Any], plan: KnowledgePlan, transcript: Transcript
    ) -> Rerank | None:
        model = plan.reranker_model
        return None if model is None else RerankCalls(visit, model, self._models, transcript).order

    @cached_property
    def builds(self) -> BuildStages:
        """The stages that nodes of builds execute."""
        stores = BuildStores(self._indexes, self._files, self._claims, self._vectors)
        return BuildStages(stores, self._models, self._settings, self._cache)

    def build(self, visit: Visit[Any]) -> StageDone:
        """Execute the stage of a build's node; raises as `BuildStages.run`."""
        try:
            return self.builds.run(visit)
        except ArtifactStoreFailed as error:
            raise KnowledgeFailed(str(error)) from error

    @cached_property
    def _cache(self) -> IndexCache:
        limit_bytes = self._settings.kb_cache_bytes
        return cache.IndexCache(self._indexes, self._directory, limit_bytes)

    def _index(
        self, visit: Visit[Any], base: DescribedBase, plan: KnowledgePlan
    ) -> tuple[Index, tuple[str, ...]]:
        """Return the index of a knowledge base, and warnings."""
        node = (visit.agent.digest, base.node_id)
        built, warnings = _built_for(visit, plan)
        for address in filter(None, (built, *self._known_addresses(node, plan))):
            found = self._cache.get(address)
            if found is not None:
                self._addresses[node] = address
                self._touch(address)
                return found, warnings
        if built is not None:
            raise KnowledgeFailed("the index that was just built is not stored any more")
        loaded = self._load(visit, base, plan)
        claim = f"{visit.agent.digest}:{base.node_id}"
        if not loading.has_pages(base.documents):
            documents = loaded.require_whole()
            claim = address_of(plan.settings, documents.hashes)
            found = self._cache.get(claim)
            if found is not None:
                self._addresses[node] = claim
                return found, ()
        raise self._to_be_built(visit, base, plan, loaded, claim)

    def _touch(self, address: str) -> None:
        """Keep an index that is in use from expiring in the store."""
        now = monotonic()
        if now - self._touched.get(address, -_TOUCHED_EVERY_S) >= _TOUCHED_EVERY_S:
            self._touched[address] = now
            self._indexes.info(address)

    def _known_addresses(self, node: tuple[str, str], plan: KnowledgePlan) -> Iterator[str | None]:
        """Yield the addresses where a node's index may be, in the order to look."""
        yield self._addresses.get(node)
        yield plan.address
        yield self._indexes.address_of(*node)

    def _to_be_built(
        self,
        visit: Visit[Any],
        base: DescribedBase,
        plan: KnowledgePlan,
        loaded: Loaded,
        claim: str,
    ) -> KnowledgeFailed:
        run_id = new_child_id(visit.run_id)
        if not self._claims.take(claim, run_id):
            return BeingBuilt(claim)
        order = BuildOrder(
            agent=visit.graph.name,
            node=base.node_id,
            settings=plan.settings,
            entries=tuple(base.documents),
            documents=f"{run_id}:local",
            batch_size=base.batch_size,
            claim=claim,
            previous=plan.address,
            bundle=visit.agent.digest,
        )
        self._files.put(order.documents, loaded.lines())
        return NotBuilt(order, run_id)

    def _load(self, visit: Visit[Any], base: DescribedBase, plan: KnowledgePlan) -> Loaded:
        """Load the documents in the agent's bundle, and local ones if this is the only machine.

        Raises:
            BuildFailed: some are on the agent's machine, or the run is over.
        """
        settings, entries = self._settings, base.documents
        reach = reach_elsewhere(settings, visit.cancelled)
        if settings.redis_url is not None and is_private(settings.redis_url):
            # Of the same user on this machine: what the submitting command may read, this may, too.
            absolute = settings.rag_absolute_paths or plan.absolute
            here = replace(settings, rag_absolute_paths=absolute)
            reach = reach_here(here, visit.cancelled)
        loaded = taken_along.brought(visit.agent.root, base.node_id)
        rest = (e for place, e in enumerate(entries) if place not in loaded.read)
        elsewhere = [e for e in rest if is_absolute(reach.classify(e).target)]
        if elsewhere and not reach.is_here:
            raise BuildFailed(
                f"'{elsewhere[0]}' is on the machine of the agent: build the knowledge base "
                f"there with `sleipnir kb build {visit.graph.name} {base.node_id}`"
            )
        loading.load_local(
            visit.directory.resolve(), entries, reach, visit.cancelled.is_set, loaded
        )
        if visit.cancelled.is_set():
            raise BuildFailed("cancelled: the run is over")
        loaded.leave_out(plan.without)
        return loaded


def _built_for(visit: Visit[Any], plan: KnowledgePlan) -> tuple[str | None, tuple[str, ...]]:
    """Return the address and the warnings of the build that this visit waited for, if it did.

    Raises:
        BuildFailed: the build did not succeed.
        NodeFailed: R025, a budget did not allow one of its calls.
    """
    child = visit.resumed_with
    if child is None or "status" not in child:
        return None, ()
    if child["status"] != "succeeded":
        failure = json.loads(child["error"]) if child["error"] else {}
        if failure.get("code") == BUDGET_REFUSES:
            raise NodeFailed(BUDGET_REFUSES, failure["message"])
        text = failure.get("message") or f"its build was {child['status']} (run {child['run_id']})"
        raise BuildFailed(text)
    built = json.loads(child["output"])
    warnings = list(built["warnings"])
    if plan.address is not None:
        warnings.append(
            "the knowledge base was rebuilt: its index was no longer stored, or had an older format"
        )
    return built["address"], tuple(warnings)
