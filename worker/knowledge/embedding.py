"""Embeds texts with a model, batch by batch, each text once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import numpy as np

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.knowledge.address import content_hash
from sleipnir.records import dataclass
from sleipnir.scheduler.runs.failures import BUDGET_REFUSES
from sleipnir.scheduler.store.knowledge.vectors import KeptVectors
from sleipnir.worker.knowledge.errors import KnowledgeFailed
from sleipnir.worker.knowledge.vectors import Matrix, VectorsUnusable, normalised
from sleipnir.worker.llm.client import BudgetRefused, Embedded, ModelCallFailed

BATCH_SIZE = 64
_SIDE_BY_SIDE = 4


def batch_size(wanted: int | None, input_tokens: int | None, chunk_size: int) -> int:
    """Return how many chunks one call embeds.

    Args:
        wanted: None: what most models accept.
        input_tokens: limit of a call to the model; None if unknown.
    """
    most = wanted or BATCH_SIZE
    return most if input_tokens is None else max(1, min(most, input_tokens // chunk_size))


class BatchFailed(Exception):
    """A batch could not be embedded; vectors of earlier batches are stored."""

    def __init__(self, batch: str, failure: ModelCallFailed) -> None:
        self.batch = batch  # names the batch; the same when it is tried again
        self.failure = failure
        super().__init__(str(failure))


@dataclass(frozen=True, slots=True)
class Embedder:
    """Embeds with one model.

    Args:
        ask: embeds a batch; raises ModelCallFailed, or exceptions of the caller's.
        embedded: called after each batch whose vectors are stored.
    """

    kept: KeptVectors
    model: str
    ask: Callable[[Sequence[str]], Embedded]
    batch_size: int = BATCH_SIZE
    dimension: int | None = None  # None: the model's default
    embedded: Callable[[Sequence[str], Embedded], None] = lambda _texts, _embedded: None

    def embed(self, texts: Sequence[str]) -> Matrix:
        """Return the normalised vectors of texts, in their order.

        Raises:
            BatchFailed: the call failed.
            KnowledgeFailed: its vectors are unusable.
        """
        by_digest = {content_hash(text): text for text in texts}
        known = self.kept.find(self.model, list(by_digest))
        missing = [digest for digest in by_digest if digest not in known]
        batches = [
            missing[start : start + self.batch_size]
            for start in range(0, len(missing), self.batch_size)
        ]
        for made in self._side_by_side(batches, by_digest):
            known |= made
        vectors = [np.frombuffer(known[content_hash(text)], np.float32) for text in texts]
        return self._checked([vector.tolist() for vector in vectors])

    def _side_by_side(
        self, batches: Sequence[Sequence[str]], by_digest: dict[str, str]
    ) -> Sequence[dict[str, bytes]]:
        if len(batches) < 2:
            return [self._batch(batch, by_digest) for batch in batches]
        pool = ThreadPoolExecutor(_SIDE_BY_SIDE, thread_name_prefix="embed")
        try:
            asked = [
                pool.submit(copy_context().run, self._batch, batch, by_digest) for batch in batches
            ]
            return [future.result() for future in asked]
        finally:
            # Wait for the calls under way: their replies are paid for and must be stored.
            pool.shutdown(cancel_futures=True)

    def _batch(self, digests: Sequence[str], by_digest: dict[str, str]) -> dict[str, bytes]:
        try:
            texts = [by_digest[digest] for digest in digests]
            embedded = self.ask(texts)
        except BudgetRefused as refusal:
            raise NodeFailed(BUDGET_REFUSES, refusal.message) from refusal
        except ModelCallFailed as failure:
            raise BatchFailed(digests[0], failure) from failure
        if len(embedded.vectors) != len(digests):
            raise KnowledgeFailed(
                f"{self.model} gave {len(embedded.vectors)} vectors for {len(digests)} texts"
            )
        made = {
            digest: vector.tobytes()
            for digest, vector in zip(digests, self._checked(embedded.vectors), strict=True)
        }
        # Store them before anything else can fail, as they are paid for.
        self.kept.keep(self.model, made)
        self.embedded(texts, embedded)
        return made

    def _checked(self, vectors: Sequence[Sequence[float]]) -> Matrix:
        try:
            return normalised(vectors, self.dimension)
        except VectorsUnusable as error:
            raise KnowledgeFailed(f"{self.model}: {error}") from error
