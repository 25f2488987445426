"""What programs can be given: texts that a model has written."""

from __future__ import annotations

import os


def argument(text: str) -> str:
    """Return a text that is to be an argument of a program; ends the tool if none can be."""
    try:
        if b"\0" not in os.fsencode(text):
            return text
    except UnicodeEncodeError:
        pass
    raise SystemExit("refused: a NUL, or half of a surrogate pair, which no program can be given")
