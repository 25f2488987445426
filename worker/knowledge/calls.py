"""The embedding calls of one visit: counted, limited and repeated like its other model calls."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.knowledge.address import content_hash
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.process.backoff import EMBEDDING
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.scheduler.store.knowledge.vectors import KeptVectors
from sleipnir.worker.conversation.transcript import Transcript
from sleipnir.worker.knowledge.errors import KnowledgeFailed, NotYet
from sleipnir.worker.llm.caller import Caller, MustWait, caller_of
from sleipnir.worker.llm.client import Embedded
from sleipnir.worker.llm.retries import is_repeatable

with lazy_imports():
    from sleipnir.worker.knowledge import embedding

if TYPE_CHECKING:
    from sleipnir.worker.knowledge.vectors import Matrix
    from sleipnir.worker.llm.models import Models
    from sleipnir.worker.visit.context import Visit


class EmbeddingCalls:
    """Calls a node's embedding model on behalf of one visit."""

    def __init__(
        self,
        visit: Visit[Any],
        model: str,
        batch_size: int | None,
        models: Models,
        kept: KeptVectors,
        settings: Settings,
        transcript: Transcript,
    ) -> None:
        self._visit = visit
        self._model = model
        self._models = models
        self._kept = kept
        self._attempts = settings.embeddings_retry_limit
        self._batch_size = batch_size or embedding.BATCH_SIZE
        self._transcript = transcript

    def of_chunks(self, texts: Sequence[str]) -> Matrix:
        """Return the normalised vectors of chunks, which are stored.

        Raises:
            KnowledgeFailed: the model failed for good, or its vectors are unusable.
            NotYet: it may be called again later.
        """
        return self._embed(texts, None)

    def of_query(self, dimension: int, texts: Sequence[str]) -> Matrix:
        """Return the normalised vectors of a query's pieces; raises as `of_chunks`."""
        return self._embed(texts, dimension)

    def _embed(self, texts: Sequence[str], dimension: int | None) -> Matrix:
        used = list[Usage]()

        def count(texts: Sequence[str], embedded: Embedded) -> None:
            self._transcript.note({"embedded": len(texts)}, embedded.usage)
            used.append(embedded.usage)

        embedder = embedding.Embedder(
            self._kept, self._model, self._ask, self._batch_size, dimension, count
        )
        try:
            vectors = embedder.embed(texts)
        except MustWait as wait:
            raise NotYet(wait.delay_s, wait.reason, for_person=wait.for_person) from wait
        except embedding.BatchFailed as failed:
            raise self._after(failed) from failed
        if texts and self._visit.context.recorded:
            known = dict(zip(texts, vectors, strict=True))
            usage = sum(used, NO_USAGE)
            self._models.record_embeddings(self._model, known, self._caller(texts), usage)
        return vectors

    def _after(self, failed: embedding.BatchFailed) -> KnowledgeFailed:
        """Return what follows a failed batch: another attempt after a pause, or failure."""
        reason = f"embedding with {self._model} failed: {failed.failure.message}"
        count = self._kept.count_failure(f"{self._visit.idempotency_key}:{failed.batch}")
        if count >= self._attempts or not is_repeatable(failed.failure):
            return KnowledgeFailed(reason)
        return NotYet(EMBEDDING.pause_s(count, failed.failure.retry_after_s), reason)

    def _ask(self, texts: Sequence[str]) -> Embedded:
        limit_s, began, caller = self._visit.seconds_left(None), monotonic(), self._caller(texts)
        embedded = self._models.embed(self._model, texts, caller, limit_s)
        if (calls := self._visit.services.calls) is not None:
            calls.embedded(caller.key, self._model, embedded, began)
        return embedded

    def _caller(self, texts: Sequence[str]) -> Caller:
        return caller_of(self._visit, content_hash(texts[0])[:16])
