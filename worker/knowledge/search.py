"""Searches an index by meaning and by keywords in parallel, and merges both orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from sleipnir.graphs.knowledge.build_settings import LOCAL
from sleipnir.graphs.knowledge.chunking import split
from sleipnir.graphs.knowledge.fusion import fuse, reranked, rounded, union
from sleipnir.records import dataclass
from sleipnir.worker.knowledge import local_model
from sleipnir.worker.knowledge.index import Chunk, Index
from sleipnir.worker.knowledge.vectors import Matrix

_LEGS = ThreadPoolExecutor(16, thread_name_prefix="knowledge")

Embed = Callable[[Sequence[str]], Matrix]
# From a query, texts and a number: positions of so many texts, best first, with scores.
Rerank = Callable[[str, Sequence[str], int], Sequence[tuple[int, float]]]


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found; ranks count from 1, None where a search did not find it."""

    chunk: Chunk
    score: float
    vector_rank: int | None
    vector_score: float | None
    keyword_rank: int | None
    keyword_score: float | None

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.chunk.source,
            "position": list(self.chunk.position),
            "text": self.chunk.text,
            "score": rounded(self.score),
            "vector_rank": self.vector_rank,
            "vector_score": _rounded(self.vector_score),
            "keyword_rank": self.keyword_rank,
            "keyword_score": _rounded(self.keyword_score),
        }


def search(
    index: Index, query: str, top_k: int, embed: Embed | None = None, rerank: Rerank | None = None
) -> list[Hit]:
    """Return the best chunks, best first.

    Args:
        embed: returns normalised vectors of texts; None if the index has none, or those of the
            local model, which searches call themselves.
        rerank: ranks what was found; None: the ranks are fused.

    Raises:
        IndexUnusable: a needed part of the index cannot be read.
    """
    if not query.strip():
        return []
    keyword_leg = _LEGS.submit(index.keywords.search, query, top_k)
    vector = by_meaning(index, query, top_k, embed)
    keyword = keyword_leg.result()
    vector_scores, keyword_scores = dict(vector), dict(keyword)
    found = list(vector_scores), list(keyword_scores)
    best = fuse(*found, top_k)
    if rerank is not None and best:
        texts = [index.chunk(number).text for number in union(*found)]
        best = reranked(*found, rerank(query, texts, top_k), top_k)
    return [
        Hit(
            index.chunk(fused.chunk),
            fused.score,
            fused.vector_rank,
            vector_scores.get(fused.chunk),
            fused.keyword_rank,
            keyword_scores.get(fused.chunk),
        )
        for fused in best
    ]


def output_of(hits: Sequence[Hit]) -> dict[str, Any]:
    """Return the output of a `rag` node: the context, and the distinct sources."""
    chunks = [hit.chunk for hit in hits]
    return {
        "context": "\n\n".join(f"[Source: {label(c.source)}]\n{c.text}" for c in chunks),
        "sources": list(dict.fromkeys(chunk.source for chunk in chunks)),
    }


def label(source: str) -> str:
    """Return a source on one line: the name of a file may hold anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in source)


def by_meaning(
    index: Index, query: str, top_k: int, embed: Embed | None = None
) -> list[tuple[int, float]]:
    """Return the positions nearest to the pieces of a query, best first; raises as `search`."""
    if index.settings.embedding_model == LOCAL:
        embed = partial(local_model.embed_query, rarity=index.keywords.rarity)
    if index.vectors is None or embed is None:
        return []
    pieces = [piece for piece in split(query, "txt", index.settings.sizes) if piece.strip()]
    return index.vectors.search(embed(pieces), top_k)


def _rounded(score: float | None) -> float | None:
    return None if score is None else rounded(score)
