"""What the nodes of a build do; the graph is in graphs/knowledge/build_graph.py."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from sleipnir.graphs.knowledge.address import address_of, content_hash
from sleipnir.graphs.knowledge.build_graph import BATCH, ORDER, RESULT
from sleipnir.graphs.knowledge.build_order import BuildOrder
from sleipnir.graphs.knowledge.build_settings import LOCAL
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.config.model_table import embedding_input_tokens
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.store.knowledge.build_claims import BuildClaims
from sleipnir.scheduler.store.knowledge.build_files import BuildFileGone, BuildFiles
from sleipnir.scheduler.store.knowledge.indexes import Indexes
from sleipnir.scheduler.store.knowledge.vectors import KeptVectors
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.knowledge.calls import EmbeddingCalls
from sleipnir.worker.knowledge.errors import (
    BeingBuilt,
    BuildFailed,
    KnowledgeFailed,
    NotYet,
    StoredDamaged,
)
from sleipnir.worker.knowledge.reading.reach import reach_here

# Lazy: they import faiss and whoosh, which most workers do not need.
with lazy_imports():
    import numpy

    from sleipnir.worker.knowledge import building, embedding, index, local_model, manifest
    from sleipnir.worker.knowledge import vectors as vector_index
    from sleipnir.worker.knowledge.reading import documents as kept_documents
    from sleipnir.worker.knowledge.reading import loading

if TYPE_CHECKING:
    from sleipnir.worker.knowledge.cache import IndexCache
    from sleipnir.worker.knowledge.index import Chunk, EmbedChunks, Index
    from sleipnir.worker.knowledge.reading.documents import Documents, Loaded
    from sleipnir.worker.knowledge.vectors import Matrix, Vectors
    from sleipnir.worker.llm.models import Models
    from sleipnir.worker.visit.context import Visit

T = TypeVar("T")

_LOOKED_UP_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class StageDone:
    """The result of a stage; without targets the graph says what comes next."""

    writes: Mapping[str, Any] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    output: Any = None


@dataclass(frozen=True, slots=True)
class BuildStores:
    """The stores for what builds make."""

    indexes: Indexes
    files: BuildFiles
    claims: BuildClaims
    vectors: KeptVectors


class _VectorGone(Exception):
    """A vector that was made has expired."""


class BuildStages:
    """The stages of builds, as one worker process executes them."""

    def __init__(
        self, stores: BuildStores, models: Models, settings: Settings, cache: IndexCache
    ) -> None:
        self._stores = stores
        self._models = models
        self._settings = settings
        self._cache = cache

    def run(self, visit: Visit[Any]) -> StageDone:
        """Execute the stage of a visit's node.

        Raises:
            BuildFailed, KnowledgeFailed: the knowledge base cannot be built.
            NotYet, BeingBuilt: try again later.
        """
        order = BuildOrder.from_json(visit.state[ORDER])
        try:
            return self._stage(visit, order)
        except (NotYet, BeingBuilt):
            raise
        except KnowledgeFailed:
            self._release(visit, order, visit.state.get("address"))
            raise

    def _stage(self, visit: Visit[Any], order: BuildOrder) -> StageDone:
        match visit.node.stage:
            case "load":
                return self._load(visit, order)
            case "embed":
                return self._embed(visit, order)
            case "assemble":
                return self._assemble(visit, order)
            case _:
                return self._tidy(visit, order)

    def _load(self, visit: Visit[Any], order: BuildOrder) -> StageDone:
        documents, warnings = self._documents(visit, order)
        address = address_of(order.settings, documents.hashes)
        if not self._stores.claims.take(address, visit.run_id):
            raise BeingBuilt(address)
        if order.claim:
            self._stores.claims.take(order.claim, visit.run_id)
        info = self._stores.indexes.info(address)
        if info is not None and self._undamaged(address, for_search=True) is not None:
            return self._done(visit, order, address, {**info, "warnings": warnings})
        batches = self._batches(visit, order, documents)
        writes = {"address": address, "warnings": warnings, "batches": list(range(batches))}
        return StageDone(writes, ("embed" if batches else "assemble",))

    def _documents(self, visit: Visit[Any], order: BuildOrder) -> tuple[Documents, list[str]]:
        """Return all documents, which are kept for the last stage, and warnings."""
        loaded = self._kept(order.documents)
        if loading.has_pages(order.entries):
            reach = reach_here(self._settings, visit.cancelled)
            loading.load_pages(order.entries, reach, visit.cancelled.is_set, loaded)
            if visit.cancelled.is_set():
                raise BuildFailed("cancelled: the run is over")
            loaded.require_whole()
            self._stores.files.put(_documents_name(visit), loaded.lines())
        return loaded.require_whole(), loaded.all_warnings()

    def _batches(self, visit: Visit[Any], order: BuildOrder, documents: Documents) -> int:
        """Store the texts to embed, one file per batch; return the number of batches."""
        settings, files = order.settings, self._stores.files
        if settings.is_keyword_only or settings.embedding_model == LOCAL:
            return 0
        tokens = embedding_input_tokens(self._settings.models, settings.embedding_model)
        size = embedding.batch_size(order.batch_size, tokens, settings.chunk_size)
        number = -1
        for number, batch in enumerate(_in_groups(self._missing(order, documents), size)):
            files.put(_batch_name(visit, number), [json.dumps(batch).encode()])
        return number + 1

    def _missing(self, order: BuildOrder, documents: Documents) -> Iterator[str]:
        """Yield the texts of chunks that have no vector yet, each once."""
        _, had = self._previous(order)
        seen = set(had)
        for chunks in _in_groups(index.chunks_of(documents, order.settings), _LOOKED_UP_AT_ONCE):
            texts = {content_hash(chunk.text): chunk.text for chunk in chunks}
            new = [digest for digest in texts if digest not in seen]
            seen.update(new)
            for digest in self._stores.vectors.missing(order.settings.embedding_model, new):
                yield texts[digest]

    def _embed(self, visit: Visit[Any], order: BuildOrder) -> StageDone:
        name = _batch_name(visit, visit.state[BATCH])
        try:
            texts = json.loads(b"".join(self._stores.files.get(name)))
        except BuildFileGone as gone:
            raise BuildFailed(
                "the texts to embed are no longer kept; start the build again"
            ) from gone
        calls = EmbeddingCalls(
            visit,
            order.settings.embedding_model,
            len(texts),
            self._models,
            self._stores.vectors,
            self._settings,
            Transcript(visit),
        )
        calls.of_chunks(texts)
        return StageDone(output=len(texts))

    def _assemble(self, visit: Visit[Any], order: BuildOrder) -> StageDone:
        documents = self._kept_documents(visit, order)
        digests: list[str] = []
        try:
            built = building.build(
                order.settings,
                documents.hashes,
                index.chunks_of(documents, order.settings),
                self._embed_with(order, digests),
                self._settings.kb_max_bytes,
            )
        except _VectorGone:
            return StageDone(targets=("load",))
        address = visit.state["address"]
        with built.content:
            self._stores.indexes.put(address, built)
        self._stores.vectors.let_go(order.settings.embedding_model, digests)
        warnings = visit.state["warnings"]
        return self._done(visit, order, address, {**built.info, "warnings": warnings})

    def _kept_documents(self, visit: Visit[Any], order: BuildOrder) -> Documents:
        has_pages = loading.has_pages(order.entries)
        return self._kept(_documents_name(visit) if has_pages else order.documents).documents

    def _kept(self, name: str) -> Loaded:
        try:
            return kept_documents.Loaded.from_lines(
                kept_documents.lines_in(self._stores.files.get(name))
            )
        except BuildFileGone as gone:
            raise BuildFailed("its documents are no longer kept; start the build again") from gone

    def _embed_with(self, order: BuildOrder, digests: list[str]) -> EmbedChunks | None:
        """Return a function that finds the vectors made for chunks; None for keywords only.

        Args:
            digests: receives the hashes of the texts whose vectors are in the store.
        """
        settings = order.settings
        if settings.is_keyword_only:
            return None
        if settings.embedding_model == LOCAL:
            return lambda chunks: local_model.embed([chunk.text for chunk in chunks])
        previous, numbers = self._previous(order)

        def embed(chunks: Sequence[Chunk]) -> Matrix:
            wanted = [content_hash(chunk.text) for chunk in chunks]
            digests.extend(wanted)
            new = [digest for digest in dict.fromkeys(wanted) if digest not in numbers]
            found = self._stores.vectors.find(settings.embedding_model, new)
            if len(found) < len(new):
                raise _VectorGone
            vectors = {name: numpy.frombuffer(each, numpy.float32) for name, each in found.items()}
            if previous is not None:
                known = {name: numbers[name] for name in wanted if name in numbers}
                vectors |= {name: previous.vector(number) for name, number in known.items()}
            if len({len(vectors[name]) for name in wanted}) > 1:
                raise vector_index.VectorsUnusable("the vectors have different dimensions")
            return numpy.stack([vectors[name] for name in wanted])

        return embed

    def _previous(self, order: BuildOrder) -> tuple[Vectors | None, dict[str, int]]:
        """Return the vectors of an earlier index with the same model, and each text's position."""
        found = (
            None if order.previous is None else self._undamaged(order.previous, for_search=False)
        )
        if found is None or found.vectors is None:
            return None, {}
        if found.manifest.index_model != order.settings.index_model:
            return None, {}
        texts = (found.chunk(number).text for number in range(found.vectors.count))
        return found.vectors, {content_hash(text): number for number, text in enumerate(texts)}

    def _undamaged(self, address: str, *, for_search: bool) -> Index | None:
        """Return an index that was built before; None if it does not exist or is damaged."""
        try:
            found = self._cache.get(address, for_search=for_search)
            if found is not None:
                found.require_readable()
        except StoredDamaged:
            return None
        except manifest.IndexUnusable:
            self._cache.forget(address)
            return None
        return found

    def _done(
        self, visit: Visit[Any], order: BuildOrder, address: str, info: Mapping[str, Any]
    ) -> StageDone:
        """Record the address of the finished index."""
        if order.bundle is not None:
            self._stores.indexes.note_address(order.bundle, order.node, address)
        result = {"address": address, **info}
        return StageDone({RESULT: result, "address": address}, ("tidy",))

    def _tidy(self, visit: Visit[Any], order: BuildOrder) -> StageDone:
        """Remove what the stages have passed on, and wake those who wait for the index."""
        batches = [_batch_name(visit, number) for number in visit.state.get("batches", ())]
        for name in (order.documents, _documents_name(visit), *batches):
            self._stores.files.remove(name)
        self._release(visit, order, visit.state["address"])
        return StageDone()

    def _release(self, visit: Visit[Any], order: BuildOrder, address: str | None) -> None:
        for claim in filter(None, (address, order.claim)):
            self._stores.claims.release(claim, visit.run_id)


def _in_groups(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield items in order, in groups of that size."""
    rest = iter(items)
    while group := list(islice(rest, size)):
        yield group


def _documents_name(visit: Visit[Any]) -> str:
    return f"{visit.run_id}:documents"


def _batch_name(visit: Visit[Any], number: int) -> str:
    return f"{visit.run_id}:{number}"
