"""Terminal output: texts from outside are made harmless, our own styles are kept.

On terminals, standard output and error are replaced, so that control characters in anything a
verb prints, such as an agent's name, a model's reply or a script's error, are shown instead of
interpreted. Pipes and files get all bytes unchanged.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
import unicodedata
from typing import Any

import click

# Styles are marked by two characters that texts cannot contain (Unicode noncharacters), and a word
# that nobody outside can know.
_WORD = os.urandom(8).hex()
_STYLE = re.compile(f"\ufdd0{_WORD}([0-9;]*)\ufdd1")
# Key of the context for "no styles".
PLAIN = "sleipnir.plain"
_replaced: list[io.TextIOBase] = []  # kept alive: deleting them would close the terminal


class TerminalOutput(io.TextIOWrapper):
    """A terminal stream that shows control characters instead of interpreting them."""

    def write(self, text: str, /) -> int:
        """Write a text; returns its length."""
        # Odd pieces are matches: the numbers of a style.
        pieces = _STYLE.split(text)
        pieces[::2] = map(printable, pieces[::2])
        pieces[1::2] = (f"\x1b[{numbers}m" for numbers in pieces[1::2])
        super().write("".join(pieces))
        return len(text)

    def control(self, sequence: str) -> None:
        """Send one of our own control sequences."""
        super().write(sequence)
        self.flush()


def protect_terminals() -> None:
    """Replace standard output and error where they are terminals."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream.isatty():
            _replaced.append(stream)
            protected = TerminalOutput(
                stream.buffer, stream.encoding, "backslashreplace", line_buffering=True
            )
            setattr(sys, name, protected)


def printable(text: str) -> str:
    """Return a text with control characters escaped, harmless to a terminal."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


def style(text: str, *, err: bool = False, **styles: Any) -> str:
    """Return the text in a `click.style`, if it goes to a terminal that may be styled.

    Args:
        err: whether it goes to standard error.
    """
    context = click.get_current_context(silent=True)
    stream = sys.stderr if err else sys.stdout
    if not isinstance(stream, TerminalOutput) or (context is not None and context.meta.get(PLAIN)):
        return text
    before, _, after = click.style("\0", **styles).partition("\0")
    return f"{_marked(before)}{text}{_marked(after)}"


def unstyled(text: str) -> str:
    """Return the text without styles."""
    return _STYLE.sub("", text)


def width_of(text: str) -> int:
    """Return the columns that a text occupies: none for styles, two for wide characters."""
    bare = unstyled(text)
    return len(bare) if bare.isascii() else sum(map(_places, bare))


def shortened(text: str, width: int) -> str:
    """Return a text cut to this width, with its styles."""
    if width_of(text) <= width:
        return text
    pieces, left = _STYLE.split(text), width - 1
    for number in range(0, len(pieces), 2):
        kept, left = _beginning(pieces[number], left)
        pieces[number] = kept
    # The ellipsis is inside the style of the cut text.
    last = max((n for n in range(0, len(pieces), 2) if pieces[n]), default=0)
    pieces[last] += "…"
    pieces[1::2] = (f"\ufdd0{_WORD}{numbers}\ufdd1" for numbers in pieces[1::2])
    return "".join(pieces)


def output_width() -> int | None:
    """Return the width of standard output; None for no limit."""
    if not isinstance(sys.stdout, TerminalOutput):
        return None
    return shutil.get_terminal_size().columns


def _beginning(text: str, room: int) -> tuple[str, int]:
    """Return the beginning of a text that fits, and the room left."""
    for place, c in enumerate(text):
        room -= _places(c)
        if room < 0:
            return text[:place], 0
    return text, room


def _places(c: str) -> int:
    if unicodedata.combining(c):
        return 0
    return 2 if unicodedata.east_asian_width(c) in "WF" else 1


def control(sequence: str) -> None:
    """Send a control sequence to the terminal at standard error."""
    if isinstance(sys.stderr, TerminalOutput):
        sys.stderr.control(sequence)


def _marked(sequences: str) -> str:
    """Return escape sequences in the form that `TerminalOutput` passes through."""
    return sequences.replace("\x1b[", f"\ufdd0{_WORD}").replace("m", "\ufdd1")
