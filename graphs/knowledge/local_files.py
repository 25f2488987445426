"""Hashes the current local documents of a knowledge base, to tell whether they have changed."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path

from sleipnir.graphs.files import MIB, open_plain
from sleipnir.graphs.knowledge.address import DocumentHash, files_hash
from sleipnir.graphs.knowledge.sources import (
    SourceError,
    classify,
    extension_of,
    files_of,
    source_of,
)


def local_files_hash(
    directory: Path, documents: Sequence[str], loaders: Collection[str], *, allow_absolute: bool
) -> str:
    """Return one hash of the files that the entries match now; unreadable ones count as empty."""
    found: dict[str, DocumentHash] = {}
    for entry in (classify(text, loaders) for text in documents):
        if not entry.is_local:
            continue
        try:
            files = files_of(directory, entry.target, allow_absolute=allow_absolute)
        except SourceError:
            continue
        for file in files:
            source = source_of(directory, file)
            found[source] = DocumentHash(source, extension_of(source), _hash(file))
    return files_hash(found.values())


def _hash(file: Path) -> str:
    try:
        with open_plain(file) as stream:
            digest = hashlib.sha256()
            while block := stream.read(MIB):
                digest.update(block)
            return digest.hexdigest()
    except OSError:
        return ""
