"""The index of a knowledge base as one blob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import IO, Any

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class PackedIndex:
    """An archive in a file of its own, which the caller has to close."""

    digest: str  # hexadecimal sha256 of the content, to verify transfers
    content: IO[bytes]
    info: Mapping[str, Any] = field(default_factory=dict)  # what a pointer records about it
