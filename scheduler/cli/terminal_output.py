"""What a terminal gets: texts from outside made harmless, and our own styles.

Standard output and error are replaced where they are terminals, so that whatever a verb prints is
shown and never obeyed: an agent's name, a model's reply, a script's error. Pipes and files get
every byte as it is.
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

# A style is written between two characters that no text may hold (Unicode's noncharacters), with
# a word in it that nobody outside can know.
_WORD = os.urandom(8).hex()
_STYLE = re.compile(f"\ufdd0{_WORD}([0-9;]*)\ufdd1")
# Where the context of a verb says that nothing is to be styled.
PLAIN = "sleipnir.plain"
_replaced: list[io.TextIOBase] = []  # kept: their end would close the terminal


class TerminalOutput(io.TextIOWrapper):
    """A terminal that shows control characters instead of obeying them."""

    def write(self, text: str, /) -> int:
        """Write a text; returns its length."""
        # Odd pieces are what was found: the numbers of a style.
        pieces = _STYLE.split(text)
        pieces[::2] = map(printable, pieces[::2])
        pieces[1::2] = (f"\x1b[{numbers}m" for numbers in pieces[1::2])
        super().write("".join(pieces))
        return len(text)

    def control(self, sequence: str) -> None:
        """Send a control sequence of ours."""
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
    """A text from outside as it may reach a terminal: it moves no cursor and sets no colour."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text
    )


def style(text: str, *, err: bool = False, **styles: Any) -> str:
    """Return the text in a style of `click.style`, if it goes to a terminal that is to have styles.

    Args:
        err: it goes to standard error.
    """
    context = click.get_current_context(silent=True)
    stream = sys.stderr if err else sys.stdout
    if not isinstance(stream, TerminalOutput) or (context is not None and context.meta.get(PLAIN)):
        return text
    before, _, after = click.style("\0", **styles).partition("\0")
    return f"{_marked(before)}{text}{_marked(after)}"


def unstyled(text: str) -> str:
    """Return the text without styles: as many characters as it takes on a line."""
    return _STYLE.sub("", text)


def width_of(text: str) -> int:
    """How many places of a line a text takes, its styles none, a character of Chinese two."""
    bare = unstyled(text)
    return len(bare) if bare.isascii() else sum(map(_places, bare))


def shortened(text: str, width: int) -> str:
    """Return the beginning of a text that takes so many places at most, with its styles."""
    if width_of(text) <= width:
        return text
    pieces, left = _STYLE.split(text), width - 1
    for number in range(0, len(pieces), 2):
        kept, left = _beginning(pieces[number], left)
        pieces[number] = kept
    # The mark stands inside the style of what it is cut from.
    last = max((n for n in range(0, len(pieces), 2) if pieces[n]), default=0)
    pieces[last] += "…"
    pieces[1::2] = (f"\ufdd0{_WORD}{numbers}\ufdd1" for numbers in pieces[1::2])
    return "".join(pieces)


def output_width() -> int | None:
    """Return how long a line of standard output may be; None: as long as it is."""
    if not isinstance(sys.stdout, TerminalOutput):
        return None
    return shutil.get_terminal_size().columns


def _beginning(text: str, room: int) -> tuple[str, int]:
    """As much of a text as there is room for, and the room that is left."""
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
    """Move the cursor of the terminal at standard error, or clear a part of it."""
    if isinstance(sys.stderr, TerminalOutput):
        sys.stderr.control(sequence)


def _marked(sequences: str) -> str:
    """Escape sequences in the form that `TerminalOutput` lets pass."""
    return sequences.replace("\x1b[", f"\ufdd0{_WORD}").replace("m", "\ufdd1")
