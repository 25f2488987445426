"""Builds the index of a knowledge base and packs it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from sleipnir.graphs.bundles.archive import UNPACKED_LIMIT_BYTES, Part, pack_into
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.files import MIB, reason
from sleipnir.graphs.knowledge.address import DocumentHash
from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.scheduler.store.knowledge.packed import PackedIndex
from sleipnir.worker.knowledge.cache import INDEX_DIRECTORY
from sleipnir.worker.knowledge.errors import BuildFailed
from sleipnir.worker.knowledge.index import Chunk, EmbedChunks, write_index
from sleipnir.worker.knowledge.manifest import MANIFEST, MANIFEST_LIMIT_BYTES
from sleipnir.worker.knowledge.vectors import VectorsUnusable


def build(
    settings: BuildSettings,
    hashes: Sequence[DocumentHash],
    chunks: Iterable[Chunk],
    embed: EmbedChunks | None,
    limit_bytes: int,
) -> PackedIndex:
    """Return the index of documents, packed in an unnamed temporary file.

    Args:
        hashes: of the documents.
        embed: as for `write_index`.
        limit_bytes: limit on the packed index.

    Raises:
        BuildFailed: it cannot be written or is too large, or its vectors do not match.
    """
    try:
        with ExitStack() as opened:
            content = opened.enter_context(tempfile.TemporaryFile(prefix="sleipnir-packed-"))
            with tempfile.TemporaryDirectory(prefix="sleipnir-index-") as name:
                manifest = write_index(Path(name), settings, hashes, chunks, embed)
                _require_unpackable(Path(name))
                digest = pack_into(content, [Part(INDEX_DIRECTORY, Path(name))], limit_bytes)
            opened.pop_all()
    except VectorsUnusable as error:
        raise BuildFailed(f"{settings.embedding_model}: {error}") from error
    except OSError as error:
        place = tempfile.gettempdir()
        raise BuildFailed(f"the index cannot be written to {place}: {reason(error)}") from error
    except BundleError as error:
        raise BuildFailed(
            f"the index takes more than {limit_bytes / MIB:g} MiB (kb_max_bytes)"
        ) from error
    info = {"files": len(hashes), "chunks": manifest.chunks, "dimension": manifest.dimension}
    return PackedIndex(digest, content, info)


def _require_unpackable(directory: Path) -> None:
    """Check that other machines would accept the index; raises BuildFailed."""
    if (directory / MANIFEST).stat().st_size > MANIFEST_LIMIT_BYTES:
        raise BuildFailed(
            "the documents are too many for one index: make several knowledge bases of them"
        )
    if sum(file.stat().st_size for file in directory.rglob("*")) > UNPACKED_LIMIT_BYTES:
        raise BuildFailed(
            f"the index takes more than {UNPACKED_LIMIT_BYTES / MIB:g} MiB before it is packed: "
            "make several knowledge bases of the documents, or longer chunks"
        )
