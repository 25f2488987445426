"""Merges the hits of two searches into one order: reciprocal rank fusion, or a model's order."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

from sleipnir.records import dataclass

_VECTOR_WEIGHT = 1.125
_KEYWORD_WEIGHT = 1.0
_DIGITS = Decimal("0.00001")


@dataclass(frozen=True, slots=True)
class Fused:
    """A chunk in the merged order; ranks count from 1, None where a search did not find it."""

    chunk: int
    score: float
    vector_rank: int | None
    keyword_rank: int | None


def fuse(vector: Sequence[int], keyword: Sequence[int], top_k: int) -> list[Fused]:
    """Return the best `top_k` chunks of two orders, each best first.

    Equal scores keep the order in which chunks were first seen, vectors before keywords.
    """
    vector_ranks = {chunk: rank for rank, chunk in enumerate(vector, 1)}
    keyword_ranks = {chunk: rank for rank, chunk in enumerate(keyword, 1)}

    def score(chunk: int) -> float:
        parts = (
            (_VECTOR_WEIGHT, vector_ranks.get(chunk)),
            (_KEYWORD_WEIGHT, keyword_ranks.get(chunk)),
        )
        return sum(weight / (2 * top_k + rank) for weight, rank in parts if rank is not None)

    fused = [
        Fused(chunk, score(chunk), vector_ranks.get(chunk), keyword_ranks.get(chunk))
        for chunk in (vector_ranks | keyword_ranks)
    ]
    return sorted(fused, key=lambda hit: -hit.score)[:top_k]


def union(vector: Sequence[int], keyword: Sequence[int]) -> list[int]:
    """Return the chunks of two orders, each once: those of the first, then the rest."""
    return list(dict.fromkeys((*vector, *keyword)))


def reranked(
    vector: Sequence[int], keyword: Sequence[int], order: Sequence[tuple[int, float]], top_k: int
) -> list[Fused]:
    """Return the best `top_k` chunks in the order of a model.

    Args:
        order: positions in the union of both, with the model's scores, best first.
    """
    vector_ranks = {chunk: rank for rank, chunk in enumerate(vector, 1)}
    keyword_ranks = {chunk: rank for rank, chunk in enumerate(keyword, 1)}
    chunks = union(vector, keyword)
    return [
        Fused(
            chunks[place], score, vector_ranks.get(chunks[place]), keyword_ranks.get(chunks[place])
        )
        for place, score in order[:top_k]
    ]


def rounded(score: float) -> float:
    """Round a score for display: to five digits, halves up."""
    return float(Decimal(score).quantize(_DIGITS, ROUND_HALF_UP))
