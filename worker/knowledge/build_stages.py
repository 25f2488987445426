"""What the nodes of a build do; the graph is in graphs/knowledge/build_graph.py."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.knowledge.address import address_of, content_hash
from sleipnir.graphs.knowledge.build_graph import BATCH, ORDER, RESULT
from sleipnir.graphs.knowledge.build_order import BuildOrder
from sleipnir.graphs.knowledge.build_settings import LOCAL
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.model_table import embedding_input_tokens
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.knowledge.build_claims import BuildClaims
from sleipnir.scheduler.store.knowledge.build_files import BuildFiles
from sleipnir.scheduler.store.knowledge.indexes import Indexes
from sleipnir.scheduler.store.knowledge.vectors import KeptVectors
from sleipnir.worker.knowledge.calls import EmbeddingCalls
from sleipnir.worker.knowledge.errors import BuildFailed, NotYet
from sleipnir.worker.knowledge.ledger import CallLedger
from sleipnir.worker.knowledge.reach import reach_here

# They import faiss and whoosh, which most workers do without.
with lazy_imports():
    import numpy

    from sleipnir.worker.knowledge import building, embedding, index, loading, local_model

if TYPE_CHECKING:
    from sleipnir.worker.knowledge.cache import IndexCache
    from sleipnir.worker.knowledge.index import Chunk, SourceText
    from sleipnir.worker.knowledge.vectors import Matrix
    from sleipnir.worker.llm.models import Models
    from sleipnir.worker.visit.context import Visit

# How long a build rests while another one makes the same index.
BUILT_AFTER_S = 2.0


@dataclass(frozen=True, slots=True)
class StageDone:
    """What a stage made; without targets it goes on as the graph says."""

    writes: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    output: Any = None


@dataclass(frozen=True, slots=True)
class BuildStores:
    """Where builds keep what they make."""

    indexes: Indexes
    files: BuildFiles
    claims: BuildClaims
    vectors: KeptVectors


class BuildStages:
    """The stages of builds, as one worker process carries them out."""

    def __init__(
        self, stores: BuildStores, models: Models, settings: Settings, cache: IndexCache
    ) -> None:
        self._stores = stores
        self._models = models
        self._settings = settings
        self._cache = cache

    def run(self, visit: Visit[Any]) -> StageDone:
        """Do what the node of a visit is there for.

        Raises:
            BuildFailed, KnowledgeFailed: the knowledge base cannot be built.
            NotYet: later, perhaps.
        """
        order = BuildOrder.from_json(visit.state[ORDER])
        match visit.node.stage:
            case "load":
                return self._load(visit, order)
            case "embed":
                return self._embed(visit, order)
            case _:
                return self._assemble(visit, order)

    def _load(self, visit: Visit[Any], order: BuildOrder) -> StageDone:
        documents, warnings = self._documents(visit, order)
        address = address_of(order.settings, (document.hash for document in documents))
        if not self._stores.claims.take(address, visit.run_id):
            raise NotYet(BUILT_AFTER_S, "its knowledge base is being built")
        if order.claim:
            self._stores.claims.take(order.claim, visit.run_id)
        info = self._stores.indexes.info(address)
        if info is not None:
            return self._done(visit, order, address, {**info, "warnings": warnings})
        batches = self._batches(visit, order, documents)
        writes = {"address": address, "warnings": warnings, "batches": list(range(batches))}
        return StageDone(writes, ("embed" if batches else "assemble",))

    def _documents(
        self, visit: Visit[Any], order: BuildOrder
    ) -> tuple[Sequence[SourceText], list[str]]:
        """All documents, and what there is to warn of; kept for the last stage."""
        files = self._stores.files
        content = files.get(order.documents)
        if content is None:
            raise BuildFailed("its documents are no longer kept; start the build again")
        loaded = loading.Loaded.from_bytes(content)
        if loading.has_pages(order.entries):
            reach = reach_here(self._settings, visit.cancelled)
            loaded += loading.load_pages(order.entries, reach, visit.cancelled.is_set, loaded)
            if visit.cancelled.is_set():
                raise BuildFailed("cancelled: the run is over")
            loaded.require_whole()
            files.put(_documents_name(visit), loaded.to_bytes())
        return loaded.require_whole(), loaded.all_warnings()

    def _batches(
        self, visit: Visit[Any], order: BuildOrder, documents: Sequence[SourceText]
    ) -> int:
        """Keep the texts to embed, a batch in a file; returns how many batches there are."""
        settings = order.settings
        if settings.is_keyword_only or settings.embedding_model == LOCAL:
            return 0
        texts = {content_hash(c.text): c.text for c in index.chunks_of(documents, settings)}
        had = self._previous_vectors(order)
        wanted = [digest for digest in texts if digest not in had]
        missing = self._stores.vectors.missing(settings.embedding_model, wanted)
        tokens = embedding_input_tokens(self._settings.models, settings.embedding_model)
        size = embedding.batch_size(order.batch_size, tokens, settings.chunk_size)
        starts = range(0, len(missing), size)
        for number, start in enumerate(starts):
            batch = [texts[digest] for digest in missing[start : start + size]]
            self._stores.files.put(_batch_name(visit, number), json.dumps(batch).encode())
        return len(starts)

    def _embed(self, visit: Visit[Any], order: BuildOrder) -> StageDone:
        name = _batch_name(visit, visit.state[BATCH])
        content = self._stores.files.get(name)
        if content is None:
            raise BuildFailed("the texts to embed are no longer kept; start the build again")
        texts = json.loads(content)
        calls = EmbeddingCalls(
            visit,
            order.settings.embedding_model,
            len(texts),
            self._models,
            self._stores.vectors,
            self._settings,
            CallLedger(visit),
        )
        calls.of_chunks(texts)
        self._stores.files.remove(name)
        return StageDone(output=len(texts))

    def _assemble(self, visit: Visit[Any], order: BuildOrder) -> StageDone:
        documents = self._kept_documents(visit, order)
        chunks = list(index.chunks_of(documents, order.settings))
        vectors = self._vectors(order, chunks)
        if vectors is None and not order.settings.is_keyword_only:
            return StageDone(targets=("load",))
        built = building.build(
            order.settings, documents, chunks, vectors, self._settings.kb_max_bytes
        )
        address = visit.state["address"]
        self._stores.indexes.put(address, built)
        if order.settings.embedding_model != LOCAL and vectors is not None:
            digests = [content_hash(chunk.text) for chunk in chunks]
            self._stores.vectors.let_go(order.settings.embedding_model, digests)
        warnings = visit.state["warnings"]
        return self._done(visit, order, address, {**built.info, "warnings": warnings})

    def _kept_documents(self, visit: Visit[Any], order: BuildOrder) -> Sequence[SourceText]:
        has_pages = loading.has_pages(order.entries)
        name = _documents_name(visit) if has_pages else order.documents
        content = self._stores.files.get(name)
        if content is None:
            raise BuildFailed("its documents are no longer kept; start the build again")
        return loading.Loaded.from_bytes(content).documents

    def _vectors(self, order: BuildOrder, chunks: Sequence[Chunk]) -> Matrix | None:
        """The vectors of chunks; None for keywords only, or if one is not there any more."""
        settings = order.settings
        if settings.is_keyword_only:
            return None
        if settings.embedding_model == LOCAL:
            return local_model.embed([chunk.text for chunk in chunks])
        digests = [content_hash(chunk.text) for chunk in chunks]
        known = self._previous_vectors(order)
        wanted = [digest for digest in dict.fromkeys(digests) if digest not in known]
        known |= self._stores.vectors.find(settings.embedding_model, wanted)
        if not all(digest in known for digest in wanted):
            return None
        if len({len(known[digest]) for digest in digests}) > 1:
            raise BuildFailed(f"{settings.embedding_model} gave vectors of different dimensions")
        rows = b"".join(known[digest] for digest in digests)
        return numpy.frombuffer(rows, numpy.float32).reshape(len(digests), -1)

    def _previous_vectors(self, order: BuildOrder) -> dict[str, bytes]:
        """Vectors of an earlier index of the same model, by the digests of their texts."""
        found = None if order.previous is None else self._cache.get(order.previous)
        if found is None or found.vectors is None:
            return {}
        if found.settings.index_model != order.settings.index_model:
            return {}
        rows = found.vectors.all()
        return {
            content_hash(found.chunk(number).text): row.tobytes() for number, row in enumerate(rows)
        }

    def _done(
        self, visit: Visit[Any], order: BuildOrder, address: str, info: Mapping[str, Any]
    ) -> StageDone:
        """The index is there: others may have it, and nothing else is kept any longer."""
        if order.bundle is not None:
            self._stores.indexes.note_address(order.bundle, order.node, address)
        for name in (order.documents, _documents_name(visit)):
            self._stores.files.remove(name)
        for claim in filter(None, (address, order.claim)):
            self._stores.claims.release(claim, visit.run_id)
        return StageDone({RESULT: {"address": address, **info}}, ("end",))


def _documents_name(visit: Visit[Any]) -> str:
    return f"{visit.run_id}:documents"


def _batch_name(visit: Visit[Any], number: int) -> str:
    return f"{visit.run_id}:{number}"
