"""What may go with a prompt besides its text: images and PDFs, told apart by their content."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

Kind: TypeAlias = Literal["image", "pdf"]

KINDS: Final[frozenset[Kind]] = frozenset({"image", "pdf"})
PDF: Final = "application/pdf"
# Stands for a file that was stored with a batch: followed by its SHA-256, in hexadecimal digits.
STORED: Final = "blob:"
# Forms of a text that names something else than a path.
PREFIXES: Final = ("http://", "https://", "data:", STORED)

_BEGINNINGS: Final = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"%PDF-\d"), PDF),
)
NO_TYPE: Final = "it is none of PNG, JPEG, GIF, WebP and PDF"


def type_of(data: bytes) -> str | None:
    """Return the media type that the content of a file shows; None if it may not be sent."""
    return next((name for beginning, name in _BEGINNINGS if beginning.match(data)), None)


def kind_of(media_type: str) -> Kind:
    """Return what a model must take to be sent files of a type."""
    return "pdf" if media_type == PDF else "image"
