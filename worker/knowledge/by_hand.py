"""Embedding calls of a person's command: they wait on the spot."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sleipnir.graphs.knowledge.build_settings import LOCAL
from sleipnir.scheduler.periodic import pause
from sleipnir.scheduler.store.knowledge.vectors import KeptVectors
from sleipnir.scheduler.store.run_store import RunStore
from sleipnir.worker.knowledge import local_model
from sleipnir.worker.knowledge.embedding import BATCH_SIZE, BatchFailed, Embedder
from sleipnir.worker.knowledge.errors import KnowledgeFailed
from sleipnir.worker.knowledge.vectors import Matrix
from sleipnir.worker.llm.caller import Caller, MustWait
from sleipnir.worker.llm.client import Embedded
from sleipnir.worker.llm.limits.gate import Gate
from sleipnir.worker.llm.models import Models


@dataclass(slots=True)
class EmbeddingByHand:
    """Makes vectors outside of any run."""

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
        """The normalised vectors of texts.

        Raises:
            KnowledgeFailed: the model failed for good, or its vectors cannot be used.
        """
        if model == LOCAL:
            return local_model.embed(texts)
        kept = KeptVectors(self.store.client)

        def ask(batch: Sequence[str]) -> Embedded:
            caller = replace(self._caller, key=f"{self._caller.key}:{secrets.token_hex(4)}")
            return self._models.embed(model, batch, caller, None)

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
                if failures >= limit or not failed.failure.may_pass:
                    raise KnowledgeFailed(
                        f"embedding with {model} failed: {failed.failure.message}"
                    ) from failed
                pause(2.0 ** (failures - 1))
