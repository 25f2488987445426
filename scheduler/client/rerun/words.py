"""Word-by-word comparison of two long texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final, Literal

from sleipnir.records import dataclass

_WORD = re.compile(r"\s*\S+|\s+$")
# Words of context shown around a difference.
_WORDS_AROUND = 5
# The time to compare grows with the square of this.
_MOST_WORDS = 3_000


PartKind = Literal["same", "removed", "added"]
_MARKS: Final[Mapping[str, tuple[str, str]]] = {"removed": ("[-", "-]"), "added": ("{+", "+}")}


@dataclass(frozen=True, slots=True)
class WordDiff:
    """Two texts without most of their common parts.

    As texts, `[-…-]` is only in the first, `{+…+}` only in the second.
    """

    parts: Sequence[tuple[PartKind, str]]

    @property
    def inline(self) -> str:
        """Both texts as one."""
        return self._text("same", "removed", "added")

    @property
    def a(self) -> str:
        """The first text."""
        return self._text("same", "removed")

    @property
    def b(self) -> str:
        """The second text."""
        return self._text("same", "added")

    def _text(self, *kinds: PartKind) -> str:
        shown = (_marked(kind, text) for kind, text in self.parts if kind in kinds)
        return "".join(shown).strip()


def word_diff(a: str, b: str) -> WordDiff | None:
    """Return the differing words; None if only blanks differ, or the texts are too long."""
    words = _WORD.findall(a), _WORD.findall(b)
    if max(map(len, words)) > _MOST_WORDS or a.split() == b.split():
        return None
    parts: list[tuple[PartKind, str]] = []
    for kind, from_a, to_a, from_b, to_b in SequenceMatcher(None, *words).get_opcodes():
        old, new = words[0][from_a:to_a], words[1][from_b:to_b]
        if kind == "equal":
            around = _WORDS_AROUND if from_a else 0, _WORDS_AROUND if to_a < len(words[0]) else 0
            parts.append(("same", "".join(_ends(old, *around))))
            continue
        parts += [("removed", "".join(old)), ("added", "".join(new))]
    return WordDiff(parts)


def _ends(words: Sequence[str], first: int, last: int) -> Iterator[str]:
    """Yield the first and last words of a common part; text ends need no context."""
    if len(words) <= first + last + 1:
        yield from words
        return
    yield from words[:first]
    yield " …"
    yield from words[len(words) - last :]


def _marked(kind: PartKind, text: str) -> str:
    inner = text.lstrip()
    if kind == "same" or not inner:
        return text
    before, after = _MARKS[kind]
    return f"{text[: len(text) - len(inner)]}{before}{inner}{after}"
