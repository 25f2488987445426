"""The address of an index: a hash of all its inputs, so that equal inputs share one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.records import dataclass

# Format of an index's archive; changing it changes all addresses.
INDEX_FORMAT = 3


@dataclass(frozen=True, slots=True)
class DocumentHash:
    """A document, as far as it affects search results."""

    source: str
    ext: str
    content: str  # sha256 of its text in UTF-8, hexadecimal


def content_hash(text: str) -> str:
    """Return the hash of a document's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def address_of(settings: BuildSettings, documents: Iterable[DocumentHash]) -> str:
    """Return the address of the index made from these inputs: 64 hexadecimal digits."""
    inputs = [
        INDEX_FORMAT,
        settings.index_model,
        settings.chunk_size,
        settings.chunk_overlap,
        sorted((document.source, document.ext, document.content) for document in documents),
    ]
    return hashlib.sha256(json.dumps(inputs, separators=(",", ":")).encode()).hexdigest()


def files_hash(documents: Iterable[DocumentHash]) -> str:
    """Return one hash of all local documents, which tells whether any of them has changed."""
    rows = sorted((document.source, document.content) for document in documents)
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()
