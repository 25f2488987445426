"""Model calls of commands, outside of runs: they wait in place."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import field, replace

from sleipnir.records import dataclass
from sleipnir.scheduler.process.backoff import EMBEDDING
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.store.knowledge.vectors import KeptVectors
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.knowledge.embedding import BATCH_SIZE, BatchFailed, Embedder
from sleipnir.worker.knowledge.errors import KnowledgeFailed
from sleipnir.worker.knowledge.reranking import rerank_failed
from sleipnir.worker.knowledge.vectors import Matrix
from sleipnir.worker.llm.caller import Caller, MustWait
from sleipnir.worker.llm.client import Embedded, ModelCallFailed
from sleipnir.worker.llm.limits.gate import Gate
from sleipnir.worker.llm.models import Models
from sleipnir.worker.llm.retries import is_repeatable


@dataclass(slots=True)
class CommandModels:
    """Embeds and reranks outside of any run."""

    store: RunStore
    _caller: Caller = field(init=False)
    _models: Models = field(init=False)

    def __post_init__(self) -> None:
        name = f"kb-{secrets.token_hex(4)}"
        self._caller = Caller(name, name, None, "kb", name)
        gate = Gate.of(self.store)
        gate.refresh()
        self._models = Models(self.store, gate)

    def embed(self, model: str, dimension: int | None, texts: Sequence[str]) -> Matrix:
        """Return the normalised vectors of texts.

        Raises:
            KnowledgeFailed: the model failed for good, or its vectors are unusable.
        """
        kept = KeptVectors(self.store.client)

        def ask(batch: Sequence[str]) -> Embedded:
            return self._models.embed(model, batch, self._call(), None)

        embedder = Embedder(kept, model, ask, BATCH_SIZE, dimension)
        failures = 0
        while True:
            try:
                return embedder.embed(texts)
            except MustWait as wait:
                pause(wait.delay_s)
            except BatchFailed as failed:
                failures += 1
                limit = self.store.settings.embeddings_retry_limit
                if failures >= limit or not is_repeatable(failed.failure):
                    raise KnowledgeFailed(
                        f"embedding with {model} failed: {failed.failure.message}"
                    ) from failed
                pause(EMBEDDING.pause_s(failures, failed.failure.retry_after_s))

    def rerank(
        self, model: str, query: str, texts: Sequence[str], top_n: int
    ) -> Sequence[tuple[int, float]]:
        """Return the best texts for a query: the position of each, and its score.

        Raises:
            KnowledgeFailed: the model failed.
        """
        while True:
            try:
                return self._models.rerank(model, query, texts, top_n, self._call(), None).order
            except MustWait as wait:
                pause(wait.delay_s)
            except ModelCallFailed as failure:
                raise rerank_failed(model, failure) from failure

    def _call(self) -> Caller:
        return replace(self._caller, key=f"{self._caller.key}:{secrets.token_hex(4)}")
