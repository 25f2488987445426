"""The keyword index of a knowledge base: BM25 over stemmed English words, kept by whoosh."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

with warnings.catch_warnings():
    # Of its source text, while it is compiled: older than what Python allows by now.
    warnings.simplefilter("ignore")
    import whoosh.codec.whoosh3  # noqa: F401  (imported in the middle of its first use else)
    from whoosh.analysis import (
        STOP_WORDS,
        IntraWordFilter,
        LowercaseFilter,
        RegexTokenizer,
        StemFilter,
        StopFilter,
    )
    from whoosh.fields import TEXT, Schema
    from whoosh.filedb.filestore import FileStorage
    from whoosh.query import Or, Term
    from whoosh.scoring import BM25F

# Words that say nothing of what a text is about.
COMMON_WORDS: frozenset[str] = STOP_WORDS

_FIELD = "text"
_MEMORY_MB = 64
# Words of a question beyond these say nothing more about it.
_MOST_WORDS = 1000


def _analyzer() -> Any:
    """English words by their stems; `connect_timeout` and `ConnectTimeout` also by their parts."""
    parts = IntraWordFilter(delims="_", splitnums=False, mergewords=True, mergenums=True)
    return RegexTokenizer(r"\w+") | parts | LowercaseFilter() | StopFilter() | StemFilter()


def write_keywords(directory: Path, texts: Iterable[str]) -> None:
    """Make an index of texts in an empty directory of its own; the texts' order numbers them."""
    schema = Schema(**{_FIELD: TEXT(analyzer=_analyzer(), phrase=False, stored=False)})
    index = FileStorage(str(directory)).create_index(schema)
    # One process, one commit: one segment, whose numbers are the positions.
    writer = index.writer(limitmb=_MEMORY_MB)
    for text in texts:
        writer.add_document(**{_FIELD: text})
    writer.commit(optimize=True)
    index.close()


def words_of(text: str) -> list[str]:
    """The words of a text that count in searches, each reduced to its stem."""
    return [token.text for token in _analyzer()(text)]


class Keywords:
    """An opened keyword index; may be used from many threads."""

    def __init__(self, directory: Path) -> None:
        storage = FileStorage(str(directory), readonly=True)
        self._index = storage.open_index()
        self._analyzer = _analyzer()
        self._searcher = self._index.searcher(weighting=BM25F(B=0.75, K1=1.5))
        self._lock = Lock()  # its readers and its stemmer are not made for several threads

    @property
    def count(self) -> int:
        """How many texts there are."""
        return int(self._searcher.doc_count_all())

    def search(self, query: str, top_k: int) -> list[tuple[int, float]]:
        """The best positions with their scores, best first, equal ones by position."""
        with self._lock:
            words = dict.fromkeys(token.text for token in self._analyzer(query, mode="query"))
            if not words:
                return []
            any_of = Or([Term(_FIELD, word) for word in list(words)[:_MOST_WORDS]])
            found = self._searcher.search(any_of, limit=top_k).top_n
        return sorted(
            ((int(position), float(score)) for score, position in found if score > 0),
            key=lambda hit: (-hit[1], hit[0]),
        )
