"""Positions in lists, and the opaque cursors that encode them for the next page."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Literal, NamedTuple

from sleipnir.scheduler.errors import BadCursor

# What a list contains; a cursor fits lists of its own kind only.
ListKind = Literal["runs", "questions", "batches"]

_TEXT = re.compile(r"(\w+):([0-9]{1,16}):(.+)", re.DOTALL)
# Longer than the name of any listed batch or question.
_MOST_CHARACTERS = 4_000


class Position(NamedTuple):
    """A position in a list: entries are ordered by instant, those of one instant by name."""

    instant: int  # ms
    name: str


def to_cursor(kind: ListKind, position: Position) -> str:
    """Encode a position as a cursor, which needs no quoting in shells and URLs."""
    text = f"{kind}:{position.instant}:{position.name}"
    return urlsafe_b64encode(text.encode(errors="surrogatepass")).decode().rstrip("=")


def from_cursor(kind: ListKind, cursor: str) -> Position:
    """Return the position that a cursor encodes.

    Raises:
        BadCursor: it is not a cursor, or one of another kind of list.
    """
    if len(cursor) > _MOST_CHARACTERS:
        raise BadCursor(kind, cursor)
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = urlsafe_b64decode(padded.encode("ascii")).decode(errors="surrogatepass")
    except ValueError:
        raise BadCursor(kind, cursor) from None
    match = _TEXT.fullmatch(text)
    if match is None or match[1] != kind:
        raise BadCursor(kind, cursor)
    return Position(int(match[2]), match[3])
