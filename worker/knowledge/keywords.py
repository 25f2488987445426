"""The keyword index of a knowledge base: BM25 over stemmed English words, stored by whoosh."""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from functools import lru_cache
from math import log
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

with warnings.catch_warnings():
    # Compiling its source, which is older than current Python, gives warnings.
    warnings.simplefilter("ignore")
    import whoosh.codec.whoosh3  # noqa: F401 (otherwise imported during its first use)
    from whoosh.analysis import (
        STOP_WORDS,
        IDTokenizer,
        IntraWordFilter,
        LowercaseFilter,
        RegexTokenizer,
        StemFilter,
        StopFilter,
    )
    from whoosh.fields import TEXT, Schema
    from whoosh.filedb.filestore import FileStorage

    from sleipnir.worker.knowledge import unpickling

unpickling.restrict()

# Words that say nothing about the topic of a text.
COMMON_WORDS: frozenset[str] = STOP_WORDS

_Scored: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.float64]]"  # positions, and their scores

_K1, _B = 1.5, 0.75
_FIELD = "text"
_MEMORY_MB = 64
_WORD = re.compile(r"\w+")
_MOST_STEMS = 100_000
# Further words of a question say nothing more about it.
_MOST_WORDS = 1000
# Cached scores of words, 16 bytes each.
_MOST_KEPT = 4_000_000


def words_of(text: str) -> list[str]:
    """Return the stems of the words that count in a text; `ConnectTimeout` also counts by parts."""
    return [stem for word in _WORD.findall(text) for stem in _stems(word)]


def _chain() -> Any:
    parts = IntraWordFilter(delims="_", splitnums=False, mergewords=True, mergenums=True)
    return RegexTokenizer(_WORD) | parts | LowercaseFilter() | StopFilter() | StemFilter()


_ANALYZER = _chain()


@lru_cache(_MOST_STEMS)
def _stems(word: str) -> tuple[str, ...]:
    """Return the stems that a word counts as; cached, as most words of a text repeat."""
    return tuple(token.text for token in _ANALYZER(word))


def write_keywords(directory: Path, texts: Iterable[str]) -> None:
    """Write an index of texts into an empty directory of its own; texts are numbered in order."""
    schema = Schema(**{_FIELD: TEXT(analyzer=IDTokenizer(), phrase=False, stored=False)})
    index = FileStorage(str(directory)).create_index(schema)
    # One process and one commit make one segment, whose numbers are the positions.
    writer = index.writer(limitmb=_MEMORY_MB)
    for text in texts:
        writer.add_document(**{_FIELD: words_of(text)})
    writer.commit(optimize=True)
    index.close()


class Keywords:
    """An open keyword index; thread-safe.

    Whoosh stores the postings, and scores them one by one in Python. Here they are scored as
    arrays, by the same formula: in a tenth of the time for 10,000 texts.
    """

    def __init__(self, directory: Path) -> None:
        storage = FileStorage(str(directory), readonly=True)
        # A given schema, as the index's own would be unpickled.
        self._index = storage.open_index(schema=Schema(**{_FIELD: TEXT(phrase=False)}))
        self._reader = self._index.reader()
        self._count = int(self._reader.doc_count_all())
        lengths = map(self._length, range(self._count))
        self._norms = _norms(np.fromiter(lengths, np.float64, self._count), self._mean_length())
        self._scored: OrderedDict[str, _Scored] = OrderedDict()
        self._kept = 0  # number of scores in it
        self._lock = Lock()  # its reader is not thread-safe

    @property
    def count(self) -> int:
        """The number of texts."""
        return self._count

    def search(self, query: str, top_k: int) -> list[tuple[int, float]]:
        """Return the best positions with their scores, best first, equal ones by position."""
        words = list(dict.fromkeys(words_of(query)))[:_MOST_WORDS]
        with self._lock:
            found = [self._scores_of(word) for word in words]
        totals = np.zeros(self._count)
        for positions, scores in found:
            totals[positions] += scores
        return _best(totals, top_k)

    def rarity(self, word: str) -> float:
        """Return how rare a word is in the texts; 0 if it does not count, otherwise more than 0."""
        with self._lock:
            frequencies = [len(self._scores_of(stem)[0]) for stem in _stems(word)]
        return max(map(self._idf, frequencies), default=0.0)

    def _idf(self, texts: int) -> float:
        """Return the weight of a word that occurs in so many texts."""
        return log(self._count / (texts + 1)) + 1

    def _scores_of(self, word: str) -> _Scored:
        """Return a word's scores in the texts that contain it; those used last are cached."""
        if (known := self._scored.get(word)) is not None:
            self._scored.move_to_end(word)
            return known
        positions, frequencies = self._postings(word)
        damped = frequencies * (_K1 + 1) / (frequencies + self._norms[positions])
        scored = (positions, self._idf(len(positions)) * damped)
        self._scored[word] = scored
        self._kept += len(positions)
        while self._kept > _MOST_KEPT and len(self._scored) > 1:
            _, (dropped, _) = self._scored.popitem(last=False)
            self._kept -= len(dropped)
        return scored

    def _postings(self, word: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the texts that contain a word, and how often each does."""
        positions: list[int] = []
        frequencies: list[float] = []
        if (_FIELD, word) in self._reader:
            matcher = self._reader.postings(_FIELD, word)
            while matcher.is_active():
                positions.append(matcher.id())
                frequencies.append(matcher.weight())
                matcher.next()
        return np.array(positions, np.int64), np.array(frequencies, np.float64)

    def _length(self, position: int) -> int:
        return int(self._reader.doc_field_length(position, _FIELD) or 0)

    def _mean_length(self) -> float:
        return float(self._reader.field_length(_FIELD)) / max(1, self._count)


def _norms(lengths: NDArray[np.float64], mean: float) -> NDArray[np.float64]:
    """Return how much the length of each text reduces its words' weight."""
    if not mean:
        return np.full(len(lengths), _K1)
    return _K1 * ((1 - _B) + _B * lengths / mean)


def _best(totals: NDArray[np.float64], top_k: int) -> list[tuple[int, float]]:
    """Return the positions of the greatest totals, greatest first, equal ones by position."""
    if top_k < len(totals):
        least = np.partition(totals, -top_k)[-top_k]
        positions = np.flatnonzero((totals >= least) & (totals > 0))
    else:
        positions = np.flatnonzero(totals > 0)
    order = np.argsort(-totals[positions], kind="stable")[:top_k]
    return [(int(n), float(totals[n])) for n in positions[order]]
