"""Wraps a text that comes in pieces at the width of a terminal, between words."""

from __future__ import annotations

import re

from sleipnir.lazy import lazy_imports

with lazy_imports():
    from rich import cells

_WORDS = re.compile(r"\n|[^\S\n]+|\S+")


class WordWrap:
    """Wraps lines; a word is held back until its end has come."""

    def __init__(self) -> None:
        self._column = 0
        self._word = ""  # begun
        self._blank = ""  # before it

    def add(self, text: str, width: int) -> str:
        """Return what can be printed now, given the next piece of the text."""
        printed = ""
        for part in _WORDS.findall(text):
            if not part.isspace():
                self._word += part
                continue
            printed += self._placed(width)
            if part == "\n":
                printed += "\n"
                self._column, self._blank = 0, ""
            else:
                self._blank += part
        return printed

    def rest(self, width: int) -> str:
        """Return the last word, once the text is complete or about to be interrupted."""
        return self._placed(width)

    def _placed(self, width: int) -> str:
        if not self._word:
            return ""
        taken = cells.cell_len(self._word)
        if self._column and self._column + len(self._blank) + taken > width:
            before, self._column = "\n", 0
        else:
            before, self._column = self._blank, self._column + len(self._blank)
        printed, self._word, self._blank = f"{before}{self._word}", "", ""
        self._column += taken
        return printed
