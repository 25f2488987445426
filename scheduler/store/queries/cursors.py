"""Places in lists, and the texts that name them to whoever asks for the next page."""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Literal, NamedTuple

from sleipnir.scheduler.errors import BadCursor

# What a list is of; a cursor fits its own kind only.
ListKind = Literal["runs", "questions", "batches"]

_TEXT = re.compile(r"(\w+):(\d{1,16}):(.+)", re.DOTALL)
# Longer than the name of any batch or question that is listed.
_MOST_CHARACTERS = 4_000


class Position(NamedTuple):
    """A place in a list: entries are ordered by instant, those of one instant by name."""

    instant: int  # ms
    name: str


def to_cursor(kind: ListKind, position: Position) -> str:
    """Return a text that `from_cursor` reads; it needs no quoting in shells and addresses."""
    text = f"{kind}:{position.instant}:{position.name}"
    return urlsafe_b64encode(text.encode(errors="surrogatepass")).decode().rstrip("=")


def from_cursor(kind: ListKind, cursor: str) -> Position:
    """Return the place that a cursor names.

    Raises:
        BadCursor: it is none, or that of another kind of list.
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
