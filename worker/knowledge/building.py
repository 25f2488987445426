"""Builds the index of a knowledge base and packs it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from sleipnir.graphs.bundles.archive import Part, pack
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.files import MIB, reason
from sleipnir.graphs.knowledge.address import DocumentHash
from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.scheduler.store.knowledge.packed import PackedIndex
from sleipnir.worker.knowledge.cache import INDEX_DIRECTORY
from sleipnir.worker.knowledge.errors import BuildFailed
from sleipnir.worker.knowledge.index import Chunk, EmbedChunks, write_index
from sleipnir.worker.knowledge.vectors import VectorsUnusable


def build(
    settings: BuildSettings,
    hashes: Sequence[DocumentHash],
    chunks: Iterable[Chunk],
    embed: EmbedChunks | None,
    limit_bytes: int,
) -> PackedIndex:
    """The index of documents.

    Args:
        hashes: of the documents.
        embed: as `write_index` has it.
        limit_bytes: what the packed index may take.

    Raises:
        BuildFailed: it cannot be written, or is too large, or its vectors do not fit together.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="sleipnir-index-") as name:
            size = write_index(Path(name), settings, hashes, chunks, embed)
            bundle = pack([Part(INDEX_DIRECTORY, Path(name))], limit_bytes)
    except VectorsUnusable as error:
        raise BuildFailed(f"{settings.embedding_model}: {error}") from error
    except OSError as error:
        place = tempfile.gettempdir()
        raise BuildFailed(f"the index cannot be written to {place}: {reason(error)}") from error
    except BundleError as error:
        raise BuildFailed(
            f"the index takes more than {limit_bytes / MIB:g} MiB (kb_max_bytes)"
        ) from error
    info = {"files": len(hashes), "chunks": size.chunks, "dimension": size.dimension}
    return PackedIndex(bundle.digest, bundle.data, info)
