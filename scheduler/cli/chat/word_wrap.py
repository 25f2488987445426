"""Wraps a text that comes in pieces at the width of a terminal, between words."""

from __future__ import annotations

import re

from sleipnir.lazy import lazy_imports

with lazy_imports():
    from rich import cells

_WORDS = re.compile(r"\n|[^\S\n]+|\S+")


class WordWrap:
    """Wraps lines; a word is held back until its end has come, or it is longer than a line."""

    def __init__(self) -> None:
        self._column = 0
        self._word = ""  # begun
        self._blank = ""  # before it
        self._goes_on = False  # its beginning was printed, as it is longer than a line

    def add(self, text: str, width: int) -> str:
        """Return what can be printed now, given the next piece of the text."""
        printed = []
        for part in _WORDS.findall(text):
            if not part.isspace():
                self._word += part
                if len(self._word) > width:
                    printed.append(self._placed(width))
                    self._goes_on = True
                continue
            printed.append(self._placed(width))
            if part == "\n":
                printed.append("\n")
                self._column, self._blank = 0, ""
            else:
                self._blank += part
        return "".join(printed)

    def rest(self, width: int) -> str:
        """Return the last word, once the text is complete or about to be interrupted."""
        return self._placed(width)

    def _placed(self, width: int) -> str:
        taken, goes_on, self._goes_on = cells.cell_len(self._word), self._goes_on, False
        if not self._word:
            return ""
        column = self._column + len(self._blank) + taken
        before = self._blank
        if column > width and self._column and not goes_on:
            before, column = "\n", taken
        # The terminal itself breaks a word that is longer than a line.
        self._column = column if column <= width else column % width
        printed, self._word, self._blank = f"{before}{self._word}", "", ""
        return printed
