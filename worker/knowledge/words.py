"""What counts as a word of a text: stems of English, and pairs of letters without blanks."""

from __future__ import annotations

import re
import unicodedata
import warnings
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

with warnings.catch_warnings():
    # Compiling its source, which is older than current Python, gives warnings.
    warnings.simplefilter("ignore")
    from whoosh.analysis import (
        STOP_WORDS,
        IntraWordFilter,
        LowercaseFilter,
        RegexTokenizer,
        StemFilter,
        StopFilter,
    )

# Words that say nothing about the topic of a text.
COMMON_WORDS: frozenset[str] = STOP_WORDS

_MOST_STEMS = 100_000
# The rest of a longer word, as in encoded data, does not count.
_LONGEST_WORD = 200

# Combining marks, as vowels of Indic scripts are, are part of a word.
_MARKS = "".join(chr(n) for n in range(0x300, 0xAC00) if unicodedata.category(chr(n))[0] == "M")
_WORD = re.compile(rf"[\w{_MARKS}]+")
# Letters of scripts that are written without blanks: Thai, Lao, Myanmar, Khmer, Kana and Han; and
# Hangul, whose words carry endings. Compatibility forms are gone by then.
_UNSPACED = re.compile(
    "[\u0e01-\u0e4f\u0e81-\u0ecd\u0edc-\u0edf\u1000-\u103f\u1050-\u109f\u1780-\u17d3"
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30ff\u31f0-\u31ff\u3400-\u9fff\uac00-\ud7a3"
    "\U00020000-\U0003ffff]+"
)


def words_of(text: str) -> list[str]:
    """Return the words of a text by which it is found.

    `ConnectTimeout` also counts by its parts. Unspaced letters count as overlapping pairs, as there
    is no dictionary to divide them, and one by one for queries of one letter.
    """
    return [word for part, is_unspaced in _parts(text) for word in _indexed(part, is_unspaced)]


def words_of_query(text: str) -> list[str]:
    """Return the words to look for."""
    return [word for part, is_unspaced in _parts(text) for word in _asked(part, is_unspaced)]


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Yield words, and runs of unspaced letters."""
    for word in _WORD.findall(unicodedata.normalize("NFKC", text)):
        if word.isascii():
            yield word, False
            continue
        at = 0
        for run in _UNSPACED.finditer(word):
            if at < run.start():
                yield word[at : run.start()], False
            yield run[0], True
            at = run.end()
        if at < len(word):
            yield word[at:], False


def _indexed(part: str, is_unspaced: bool) -> tuple[str, ...]:
    return (*part, *_pairs(part)) if is_unspaced else _stems(part[:_LONGEST_WORD])


def _asked(part: str, is_unspaced: bool) -> tuple[str, ...]:
    return (_pairs(part) or (part,)) if is_unspaced else _stems(part[:_LONGEST_WORD])


def _pairs(run: str) -> tuple[str, ...]:
    return tuple(map("".join, pairwise(run)))


def _chain() -> Any:
    parts = IntraWordFilter(delims="_", splitnums=False, mergewords=True, mergenums=True)
    return RegexTokenizer(_WORD) | parts | LowercaseFilter() | StopFilter() | StemFilter()


_ANALYZER = _chain()


@lru_cache(_MOST_STEMS)
def _stems(word: str) -> tuple[str, ...]:
    """Return the stems that a word counts as; cached, as most words of a text repeat."""
    return tuple(token.text for token in _ANALYZER(word))
