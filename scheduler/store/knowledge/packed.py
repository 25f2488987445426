"""The index of a knowledge base as one blob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import IO, Any

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class PackedIndex:
    """An archive in a file of its own, which whoever has it closes."""

    digest: str  # sha256 of the content, hexadecimal: tells whether it arrived whole
    content: IO[bytes]
    info: Mapping[str, Any] = field(default_factory=dict)  # what a pointer says of it
