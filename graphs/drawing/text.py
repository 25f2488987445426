"""Estimates how wide a text will be in an unknown font, rather too wide than too narrow."""

from __future__ import annotations

import unicodedata
from typing import Final

from sleipnir.records import dataclass

# Fractions of the font size, measured with the widest of the common sans-serif fonts.
NARROW: Final = frozenset("fijlrtI.,:;'|!()[]{}/ \\-`")
WIDE: Final = frozenset("mwMW@%<>=+~#&…")


_JOINER: Final = "\N{ZERO WIDTH JOINER}"


@dataclass(frozen=True, slots=True)
class Style:
    size: float
    bold: bool = False


BODY: Final = Style(14, bold=True)
SMALL: Final = Style(11)
LABEL: Final = Style(11)


def width_of(text: str, style: Style) -> float:
    """Return the estimated width in pixels."""
    return sum(map(_share, text)) * style.size * (1.07 if style.bold else 1.0)


def _share(char: str) -> float:
    if unicodedata.combining(char) or char == _JOINER:
        return 0.0
    if unicodedata.east_asian_width(char) in "WF":
        return 1.05
    if char in NARROW:
        return 0.38
    if char in WIDE:
        return 0.95
    return 0.70 if char.isupper() else 0.62


def in_one_line(text: str) -> str:
    """Return the text in one line, without control characters."""
    # XML allows no control characters, not even escaped. The joiner makes one emoji of several.
    kept = (char if char.isprintable() or char == _JOINER else " " for char in text)
    return " ".join("".join(kept).split())


def shortened(text: str, limit: int) -> str:
    """Return at most `limit` characters in one line, cut in the middle, no control characters."""
    flat = in_one_line(text)
    if len(flat) <= limit:
        return flat
    return f"{flat[: limit // 2]}…{flat[-(limit - limit // 2 - 1) :]}"
