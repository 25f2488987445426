"""The index of a knowledge base as one blob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class PackedIndex:
    """An archive, and the hash that tells whether it arrived whole."""

    digest: str  # sha256 of the data, hexadecimal
    data: bytes
    info: Mapping[str, Any] = field(default_factory=dict)  # what a pointer says of it
