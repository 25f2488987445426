"""How an index is named: by a hash of all that goes into it, so equal inputs share one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.records import dataclass

# Of the archive of an index; another one makes other addresses.
INDEX_FORMAT = 2


@dataclass(frozen=True, slots=True)
class DocumentHash:
    """One document, as far as it matters to what is found in it."""

    source: str
    ext: str
    content: str  # sha256 of its text in UTF-8, hexadecimal


def content_hash(text: str) -> str:
    """The hash of a document's text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def address_of(settings: BuildSettings, documents: Iterable[DocumentHash]) -> str:
    """The address of the index that these inputs make: 64 hexadecimal digits."""
    inputs = [
        INDEX_FORMAT,
        settings.index_model,
        settings.chunk_size,
        settings.chunk_overlap,
        sorted((document.source, document.ext, document.content) for document in documents),
    ]
    return hashlib.sha256(json.dumps(inputs, separators=(",", ":")).encode()).hexdigest()


def files_hash(documents: Iterable[DocumentHash]) -> str:
    """One hash of all local documents, to tell whether any of them has changed."""
    rows = sorted((document.source, document.content) for document in documents)
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()
