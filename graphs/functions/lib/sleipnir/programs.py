"""Checks texts written by a model before they become arguments of a program."""

from __future__ import annotations

import os


def argument(text: str) -> str:
    """Return the text; exit from the tool if it cannot be an argument of a program."""
    try:
        if b"\0" not in os.fsencode(text):
            return text
    except UnicodeEncodeError:
        pass
    raise SystemExit("refused: a NUL, or half of a surrogate pair, which no program can be given")
