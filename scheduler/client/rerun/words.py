"""Word-by-word comparison of two long texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from sleipnir.records import dataclass

_WORD = re.compile(r"\s*\S+|\s+$")
# Words of context shown around a difference.
_WORDS_AROUND = 5
# The time to compare grows with the square of this.
_MOST_WORDS = 3_000


@dataclass(frozen=True, slots=True)
class WordDiff:
    """Two texts without most of their common parts.

    `[-…-]` is only in the first, `{+…+}` only in the second.
    """

    inline: str
    a: str
    b: str


def word_diff(a: str, b: str) -> WordDiff | None:
    """Return the differing words; None if only blanks differ, or the texts are too long."""
    words = _WORD.findall(a), _WORD.findall(b)
    if max(map(len, words)) > _MOST_WORDS or a.split() == b.split():
        return None
    inline: list[str] = []
    only_a: list[str] = []
    only_b: list[str] = []
    for kind, from_a, to_a, from_b, to_b in SequenceMatcher(None, *words).get_opcodes():
        old, new = words[0][from_a:to_a], words[1][from_b:to_b]
        if kind == "equal":
            around = _WORDS_AROUND if from_a else 0, _WORDS_AROUND if to_a < len(words[0]) else 0
            shared = "".join(_ends(old, *around))
            for parts in (inline, only_a, only_b):
                parts.append(shared)
            continue
        removed, added = _marked(old, "[-", "-]"), _marked(new, "{+", "+}")
        inline.append(removed + added)
        only_a.append(removed)
        only_b.append(added)
    return WordDiff(*("".join(parts).strip() for parts in (inline, only_a, only_b)))


def _ends(words: Sequence[str], first: int, last: int) -> Iterator[str]:
    """Yield the first and last words of a common part; text ends need no context."""
    if len(words) <= first + last + 1:
        yield from words
        return
    yield from words[:first]
    yield " …"
    yield from words[len(words) - last :]


def _marked(words: Sequence[str], before: str, after: str) -> str:
    text = "".join(words)
    inner = text.lstrip()
    return f"{text[: len(text) - len(inner)]}{before}{inner}{after}" if inner else text
