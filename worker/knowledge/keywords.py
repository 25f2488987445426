"""The keyword index of a knowledge base: BM25 over the words of its texts.

Indexes come from a store that others can write to: its files are a list of words and arrays of
numbers, and what they say of each other is checked before it is used.
"""

from __future__ import annotations

from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable
from math import log
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sleipnir.worker.knowledge.manifest import IndexUnusable
from sleipnir.worker.knowledge.words import words_of, words_of_query

_Scored: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.float64]]"  # positions, and their scores
_Numbers: TypeAlias = "NDArray[np.uint32]"

_K1, _B = 1.5, 0.75
# Further words of a question say nothing more about it.
_MOST_WORDS = 1000
# Cached scores of words, 16 bytes each.
_MOST_KEPT = 4_000_000

# The words, one a line; per word, how many texts contain it.
_WORDS = "words.txt"
_TEXTS = "texts.u32"
# For one word after the other: the texts that contain it, in order, and how often each does.
_POSITIONS = "positions.u32"
_FREQUENCIES = "frequencies.u32"
# Per text, its number of words.
_LENGTHS = "lengths.u32"
_NUMBER = np.dtype("<u4")


def write_keywords(directory: Path, texts: Iterable[str]) -> None:
    """Write an index of texts into an empty directory of its own; texts are numbered in order."""
    numbers: dict[str, int] = {}
    # One entry per text and word in it; compact, as there may be millions.
    words, positions, frequencies, lengths = (array("I") for _ in range(4))
    for position, text in enumerate(texts):
        found = Counter(words_of(text))
        words.extend(numbers.setdefault(word, len(numbers)) for word in found)
        positions.extend([position] * len(found))
        frequencies.extend(found.values())
        lengths.append(found.total())
    # Stable, so that the texts of a word stay in order.
    order = np.argsort(_numbers(words), kind="stable")
    (directory / _WORDS).write_text("\n".join(numbers), encoding="utf-8")
    _write(directory / _TEXTS, np.bincount(_numbers(words), minlength=len(numbers)))
    _write(directory / _POSITIONS, _numbers(positions)[order])
    _write(directory / _FREQUENCIES, _numbers(frequencies)[order])
    _write(directory / _LENGTHS, _numbers(lengths))


def _numbers(values: array[int]) -> NDArray[np.uintc]:
    return np.frombuffer(values, np.uintc)


def _write(file: Path, values: NDArray[Any]) -> None:
    values.astype(_NUMBER).tofile(file)


class Keywords:
    """An open keyword index; thread-safe.

    Raises:
        OSError: a file cannot be read.
        IndexUnusable, UnicodeDecodeError: its files contradict each other.
    """

    def __init__(self, directory: Path) -> None:
        lengths, texts = _numbers_in(directory / _LENGTHS), _numbers_in(directory / _TEXTS)
        self._positions = _numbers_in(directory / _POSITIONS)
        self._frequencies = _numbers_in(directory / _FREQUENCIES)
        self._count = len(lengths)
        self._require_consistent(texts)
        self._ends = np.cumsum(texts, dtype=np.uint64)
        self._words = _words_in(directory / _WORDS, len(texts))
        self._norms = _norms(lengths.astype(np.float64))
        self._scored: OrderedDict[str, _Scored] = OrderedDict()
        self._kept = 0  # number of scores in it
        self._lock = Lock()  # for what is cached
        # Of the words and the norms; the texts that contain a word are read from the disk.
        self.bytes = 100 * len(self._words) + 8 * self._count

    def _require_consistent(self, texts: _Numbers) -> None:
        """Check what the numbers say of each other, before they take memory."""
        entries = int(texts.sum(dtype=np.uint64))
        if not entries == len(self._positions) == len(self._frequencies):
            raise IndexUnusable("its parts differ in length")
        if len(texts) and not texts.min():
            raise IndexUnusable("a word is in no text")
        if entries and int(self._positions.max()) >= self._count:
            raise IndexUnusable("a word is in a text that does not exist")

    @property
    def count(self) -> int:
        """The number of texts."""
        return self._count

    def search(self, query: str, top_k: int) -> list[tuple[int, float]]:
        """Return the best positions with their scores, best first, equal ones by position."""
        words = list(dict.fromkeys(words_of_query(query)))[:_MOST_WORDS]
        with self._lock:
            found = [self._scores_of(word) for word in words]
        totals = np.zeros(self._count)
        for positions, scores in found:
            totals[positions] += scores
        return _best(totals, top_k)

    def rarity(self, word: str) -> float:
        """Return how rare a word is in the texts; 0 if it does not count, otherwise more than 0."""
        frequencies = [len(self._postings(part)[0]) for part in words_of_query(word)]
        return max(map(self._idf, frequencies), default=0.0)

    def _idf(self, texts: int) -> float:
        """Return the weight of a word that occurs in so many texts."""
        return log(self._count / (texts + 1)) + 1

    def _scores_of(self, word: str) -> _Scored:
        """Return a word's scores in the texts that contain it; those used last are cached."""
        if (known := self._scored.get(word)) is not None:
            self._scored.move_to_end(word)
            return known
        numbers, counts = self._postings(word)
        positions, frequencies = numbers.astype(np.int64), counts.astype(np.float64)
        damped = frequencies * (_K1 + 1) / (frequencies + self._norms[positions])
        scored = (positions, self._idf(len(positions)) * damped)
        self._scored[word] = scored
        self._kept += len(positions)
        while self._kept > _MOST_KEPT and len(self._scored) > 1:
            _, (dropped, _) = self._scored.popitem(last=False)
            self._kept -= len(dropped)
        return scored

    def _postings(self, word: str) -> tuple[_Numbers, _Numbers]:
        """Return the texts that contain a word, and how often each does."""
        number = self._words.get(word)
        if number is None:
            return self._positions[:0], self._frequencies[:0]
        start = int(self._ends[number - 1]) if number else 0
        entries = slice(start, int(self._ends[number]))
        return self._positions[entries], self._frequencies[entries]


def mapped(file: Path, kind: DTypeLike) -> NDArray[Any]:
    """Return the numbers in a file, read from it when they are used; raises OSError, ValueError."""
    return np.asarray(np.memmap(file, kind, "r")) if file.stat().st_size else np.zeros(0, kind)


def _numbers_in(file: Path) -> _Numbers:
    if file.stat().st_size % _NUMBER.itemsize:
        raise IndexUnusable(f"{file.name} is cut")
    return mapped(file, _NUMBER)


def _words_in(file: Path, count: int) -> dict[str, int]:
    """Return the number of each word; raises IndexUnusable unless they are so many."""
    text = file.read_text(encoding="utf-8")
    if text.count("\n") + bool(text) == count:
        words = {word: number for number, word in enumerate(text.split("\n") if text else ())}
        if len(words) == count:
            return words
    raise IndexUnusable("its words do not match their numbers")


def _norms(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how much the length of each text reduces its words' weight."""
    mean = lengths.mean() if len(lengths) else 0.0
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
