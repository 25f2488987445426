"""How often a search finds the place of an answer: each leg, both fused, and another library."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import mean
from typing import Any, TypeAlias, get_args

from sleipnir.graphs.knowledge.build_settings import LOCAL, BuildSettings
from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.worker.bench.rag.corpus import PACKAGES, AnswerPlace, Corpus, corpus
from sleipnir.worker.bench.rag.questions import Kind, KnownQuestion, questions
from sleipnir.worker.knowledge import local_model
from sleipnir.worker.knowledge.index import Chunk, Index, chunks_of, write_index
from sleipnir.worker.knowledge.search import by_meaning, search
from sleipnir.worker.knowledge.vectors import Matrix

with lazy_imports():
    import bm25s

REMEDY = "bm25s is not installed beside Sleipnir: pip install 'sleipnir[peers]'"
SETTINGS = BuildSettings(LOCAL, 1000, 50)
_TOP_K = 5

# Returns the positions of the best chunks for a question, best first.
Searcher = Callable[[str], Sequence[int]]
# The rank, from 1, of the first chunk with a question's answer; None if none was found.
_Ranks: TypeAlias = "dict[KnownQuestion, int | None]"


@dataclass(frozen=True, slots=True)
class Quality:
    """How well one way of searching does with its first five chunks."""

    name: str
    kind: Kind | None  # kind of the questions; None: all
    questions: int
    recall: float  # share of the questions whose answer is among them
    mrr: float  # mean of 1 / rank of the first chunk with the answer, 0 where none has it


def is_installed() -> bool:
    """Return whether the other library is installed."""
    return find_spec("bm25s") is not None


def quality(packages: Sequence[str] = PACKAGES) -> Iterator[Quality]:
    """Yield every way of searching, for all questions about packages and for each kind of them.

    Each package is a knowledge base of its own, and asked only questions about itself, as not every
    question says which package is meant.

    Raises:
        NoCorpus: the corpus is not installed.
        KnowledgeFailed: the local embedding model is not installed.
    """
    ranks: dict[str, _Ranks] = {}
    for package in packages:
        for searcher, found in _ranks_in(package).items():
            ranks.setdefault(searcher, {}).update(found)
    for searcher, all_found in ranks.items():
        for kind in (None, *get_args(Kind)):
            yield _measured(searcher, kind, all_found)


def _ranks_in(package: str) -> dict[str, _Ranks]:
    """Return what each way of searching finds for the questions about a package."""
    searched = corpus((package,))
    chunks = list(chunks_of(searched.documents, SETTINGS))
    places = chunks_of_places(searched, chunks)
    asked = [question for question in questions() if question.place in places]
    with tempfile.TemporaryDirectory(prefix="sleipnir-bench-") as name:
        hashes = [document.hash for document in searched.documents]
        write_index(Path(name), SETTINGS, hashes, chunks, _embed)
        return {
            searcher: {one: _rank(find(one.text), places[one.place]) for one in asked}
            for searcher, find in _searchers(Index(Path(name)), chunks).items()
        }


def _embed(chunks: Sequence[Chunk]) -> Matrix:
    return local_model.embed([chunk.text for chunk in chunks])


def _measured(name: str, kind: Kind | None, ranks: _Ranks) -> Quality:
    found = [rank for question, rank in ranks.items() if kind in (None, question.kind)]
    recall = mean(rank is not None for rank in found)
    mrr = mean(1 / rank if rank else 0.0 for rank in found)
    return Quality(name, kind, len(found), recall, mrr)


def _rank(found: Sequence[int], expected: set[int]) -> int | None:
    return next((rank for rank, chunk in enumerate(found, 1) if chunk in expected), None)


def chunks_of_places(searched: Corpus, chunks: Sequence[Chunk]) -> dict[AnswerPlace, set[int]]:
    """Return the chunks that contain each place: at least half of its text, or the largest part."""
    shares: dict[AnswerPlace, dict[int, float]] = {}
    places: dict[str, list[AnswerPlace]] = {}
    for place in searched.spans:
        places.setdefault(place.source, []).append(place)
    texts = {document.source: document.text for document in searched.documents}
    source, begins = "", 0
    for number, chunk in enumerate(chunks):
        begins = texts[chunk.source].index(chunk.text, begins if chunk.source == source else 0)
        source = chunk.source
        for place in places[source]:
            first, last = searched.spans[place]
            common = min(last, begins + len(chunk.text)) - max(first, begins)
            if common > 0:
                shares.setdefault(place, {})[number] = common / (last - first)
    return {
        place: {number for number, share in found.items() if share >= min(0.5, max(found.values()))}
        for place, found in shares.items()
    }


def _searchers(index: Index, chunks: Sequence[Chunk]) -> dict[str, Searcher]:
    """Return the ways of searching, by name."""
    numbers = {chunk.position: number for number, chunk in enumerate(chunks)}

    def fused(text: str) -> list[int]:
        return [numbers[hit.chunk.position] for hit in search(index, text, _TOP_K)]

    return {
        "keywords": lambda text: [number for number, _ in index.keywords.search(text, _TOP_K)],
        "vectors": lambda text: [number for number, _ in by_meaning(index, text, _TOP_K)],
        "fused": fused,
        "bm25s": _bm25s([chunk.text for chunk in chunks]),
    }


def _bm25s(texts: Sequence[str]) -> Searcher:
    """Return plain BM25 of another library, with its own tokens and English stop words."""
    retriever: Any = bm25s.BM25(k1=1.5, b=0.75)
    quiet = {"stopwords": "en", "show_progress": False}
    retriever.index(bm25s.tokenize(list(texts), **quiet), show_progress=False)

    def find(text: str) -> list[int]:
        words = bm25s.tokenize([text], **quiet)
        numbers, scores = retriever.retrieve(words, k=_TOP_K, show_progress=False)
        found = zip(numbers[0].tolist(), scores[0].tolist(), strict=True)
        return [number for number, score in found if score > 0]

    return find
