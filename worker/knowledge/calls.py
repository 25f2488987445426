"""The embedding calls of one visit: counted, limited and repeated as its other model calls."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.knowledge.address import content_hash
from sleipnir.graphs.knowledge.build_settings import LOCAL
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.config.settings import Settings
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.scheduler.store.knowledge.vectors import KeptVectors
from sleipnir.worker.knowledge.errors import KnowledgeFailed, NotYet
from sleipnir.worker.llm.caller import Caller, MustWait
from sleipnir.worker.llm.client import Embedded

with lazy_imports():
    from sleipnir.worker.knowledge import embedding, local_model

if TYPE_CHECKING:
    from sleipnir.worker.knowledge.vectors import Matrix
    from sleipnir.worker.llm.models import Models
    from sleipnir.worker.visit.context import Visit


class EmbeddingCalls:
    """Asks the embedding model of a node on behalf of one visit."""

    def __init__(
        self,
        visit: Visit[Any],
        model: str,
        batch_size: int | None,
        models: Models,
        kept: KeptVectors,
        settings: Settings,
    ) -> None:
        self._visit = visit
        self._model = model
        self._models = models
        self._kept = kept
        self._attempts = settings.embeddings_retry_limit
        self._batch_size = batch_size or embedding.BATCH_SIZE
        self._lock = Lock()
        self._recorded: int | None = None  # entries of the visit's conversation
        self._usage = NO_USAGE

    def of_chunks(self, texts: Sequence[str]) -> Matrix:
        """The normalised vectors of chunks, which are kept.

        Raises:
            KnowledgeFailed: the model failed for good, or its vectors cannot be used.
            NotYet: it may be asked again later.
        """
        return self._embed(texts, None)

    def of_query(self, dimension: int, texts: Sequence[str]) -> Matrix:
        """The normalised vectors of a query's pieces; raises what `of_chunks` does."""
        return self._embed(texts, dimension)

    def _embed(self, texts: Sequence[str], dimension: int | None) -> Matrix:
        if self._model == LOCAL:
            return local_model.embed(texts)
        embedder = embedding.Embedder(
            self._kept, self._model, self._ask, self._batch_size, dimension, self._count
        )
        try:
            vectors = embedder.embed(texts)
        except MustWait as wait:
            raise NotYet(wait.delay_s, wait.reason, for_person=wait.for_person) from wait
        except embedding.BatchFailed as failed:
            raise self._after(failed) from failed
        if texts and self._visit.context.recorded:
            known = dict(zip(texts, vectors, strict=True))
            self._models.record_embeddings(self._model, known, self._caller(texts), self._usage)
        return vectors

    def _after(self, failed: embedding.BatchFailed) -> KnowledgeFailed:
        """What becomes of a failed batch: another attempt, after a rest, or the end."""
        reason = f"embedding with {self._model} failed: {failed.failure.message}"
        count = self._kept.count_failure(f"{self._visit.idempotency_key}:{failed.batch}")
        if count >= self._attempts or not failed.failure.may_pass:
            return KnowledgeFailed(reason)
        return NotYet(max(2.0 ** (count - 1), failed.failure.retry_after_s or 0.0), reason)

    def _ask(self, texts: Sequence[str]) -> Embedded:
        limit_s = self._visit.seconds_left(None)
        return self._models.embed(self._model, texts, self._caller(texts), limit_s)

    def _caller(self, texts: Sequence[str]) -> Caller:
        visit = self._visit
        return Caller(
            run_id=visit.run_id,
            root=visit.context.root or visit.run_id,
            batch=visit.context.batch,
            budget_usd=visit.context.budget_usd,
            node=visit.node_id,
            key=f"{visit.idempotency_key}:{content_hash(texts[0])[:16]}",
            recorded=visit.context.recorded,
            replay=visit.context.replay,
            secrets=visit.secrets,
            cancellation=visit.cancelled,
        )

    def _count(self, texts: Sequence[str], embedded: Embedded) -> None:
        """Count at once what was used: the visit may rest or be lost before its end."""
        conversation = self._visit.services.conversation
        with self._lock:
            if self._recorded is None:
                self._recorded = len(conversation.entries())
            entry = {"embedded": len(texts), "usage": embedded.usage.to_list()}
            conversation.record(self._recorded, entry, None, embedded.usage)
            self._recorded += 1
        self._usage += embedded.usage
