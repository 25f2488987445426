"""An index on disk: chunks, their keywords and vectors, and a manifest of its inputs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sleipnir.graphs.files import reason
from sleipnir.graphs.knowledge.address import INDEX_FORMAT, DocumentHash
from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.graphs.knowledge.chunking import split
from sleipnir.records import dataclass
from sleipnir.worker.knowledge.keywords import Keywords, mapped, write_keywords
from sleipnir.worker.knowledge.manifest import (
    IndexUnusable,
    Manifest,
    ManifestSettings,
    digests_of,
    read_manifest,
)
from sleipnir.worker.knowledge.reading.documents import SourceText
from sleipnir.worker.knowledge.vectors import Matrix, Vectors, VectorWriter

_CHUNKS = "chunks.jsonl"
_VECTORS = "faiss.index"
_KEYWORDS = "keywords"
_NEWLINE = ord("\n")
_MISFITS = "its parts do not belong together"
_EMBEDDED_AT_ONCE = 1000
# Versions recorded in the manifest, for indexes of unknown origin.
_TOOLS = ("sleipnir", "faiss-cpu", "whoosh")
# A chunk as it is written: two texts and two numbers, nothing nested.
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*"'
_ROW = re.compile(rb"\[%s,\d{1,9},\d{1,9},%s\]" % (_TEXT, _TEXT))


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document."""

    source: str
    position: tuple[int, int]  # number of the document, and of the chunk in it
    text: str


# Returns the vectors of chunks.
EmbedChunks: TypeAlias = Callable[[Sequence[Chunk]], Matrix]


def chunks_of(documents: Iterable[SourceText], settings: BuildSettings) -> Iterator[Chunk]:
    """Yield all chunks, in order, except blank ones."""
    for number, document in enumerate(documents):
        for place, text in enumerate(split(document.text, document.ext, settings.sizes)):
            if text.strip():
                yield Chunk(document.source, (number, place), text)


def write_index(
    directory: Path,
    settings: BuildSettings,
    hashes: Sequence[DocumentHash],
    chunks: Iterable[Chunk],
    embed: EmbedChunks | None,
) -> Manifest:
    """Make an index in an empty directory, in one pass over its chunks.

    Args:
        hashes: of the documents.
        embed: returns normalised vectors, one per chunk; called with all chunks in order, some at a
            time. None: for an index with keywords only.

    Raises:
        VectorsUnusable: vectors differ in dimension.
    """
    vectors = _ChunkVectors(directory / _VECTORS, embed)
    with (directory / _CHUNKS).open("w", encoding="utf-8", errors="surrogatepass") as file:

        def texts() -> Iterator[str]:
            for chunk in chunks:
                row = [chunk.source, *chunk.position, chunk.text]
                file.write(json.dumps(row, separators=(",", ":")) + "\n")
                vectors.add(chunk)
                yield chunk.text

        (directory / _KEYWORDS).mkdir()
        write_keywords(directory / _KEYWORDS, texts())
    vectors.write()
    manifest = Manifest(
        format=INDEX_FORMAT,
        settings=ManifestSettings(**settings.to_json()),
        index_model=settings.index_model,
        sources=[(hash.source, hash.ext, hash.content) for hash in hashes],
        chunks=vectors.chunks,
        dimension=vectors.dimension,
        tools={name: version(name) for name in _TOOLS},
        digests=digests_of(directory),
    )
    manifest.write(directory)
    return manifest


class _ChunkVectors:
    """Embeds chunks as they come, a group at a time, so that not all must be in memory."""

    def __init__(self, file: Path, embed: EmbedChunks | None) -> None:
        self.chunks = 0
        self._embed = embed
        self._writer = VectorWriter(file)
        self._waiting: list[Chunk] = []

    @property
    def dimension(self) -> int | None:
        return self._writer.dimension

    def add(self, chunk: Chunk) -> None:
        self.chunks += 1
        if self._embed is not None:
            self._waiting.append(chunk)
            if len(self._waiting) == _EMBEDDED_AT_ONCE:
                self._flush()

    def write(self) -> None:
        self._flush()
        self._writer.write()

    def _flush(self) -> None:
        if self._embed is not None and self._waiting:
            self._writer.add(self._embed(self._waiting))
            self._waiting = []


class Index:
    """An open index, read-only; thread-safe.

    Raises:
        IndexUnusable: it is incomplete.
    """

    def __init__(self, directory: Path, address: str = "") -> None:
        self.address = address
        try:
            self.manifest = read_manifest(directory)
            self.settings = self.manifest.build_settings
            self._rows = mapped(directory / _CHUNKS, np.uint8)
            self._ends = _line_ends(self._rows, self.manifest.chunks)
            file = directory / _VECTORS
            self.vectors = Vectors(file) if self.dimension is not None else None
            # Of an older format only the vectors are of use, as they may have cost money.
            self.is_searchable = self.manifest.format == INDEX_FORMAT
            if self.is_searchable:
                self.keywords = Keywords(directory / _KEYWORDS)
            self._require_one_size()
        except IndexUnusable:
            raise
        except OSError as error:
            place = f"{Path(error.filename).name}: " if error.filename else ""
            raise IndexUnusable(f"{place}{reason(error)}") from error
        except Exception as error:  # faiss raises many exceptions of its own
            raise IndexUnusable(str(error)) from error

    def _require_one_size(self) -> None:
        sizes = {(self.manifest.chunks, self.dimension)}
        if self.vectors is not None:
            sizes.add((self.vectors.count, self.vectors.dimension))
        if self.is_searchable:
            sizes.add((self.keywords.count, self.dimension))
        if len(sizes) > 1:
            raise IndexUnusable(_MISFITS)

    @property
    def dimension(self) -> int | None:
        """Dimension of its vectors; None: keywords only."""
        return self.manifest.dimension

    @property
    def bytes(self) -> int:
        """Approximate size in memory, without what is mapped from its files."""
        vectors = 4 * (self.dimension or 0) * len(self._ends)
        keywords = self.keywords.bytes if self.is_searchable else 0
        return vectors + keywords + self._ends.nbytes

    def chunk(self, number: int) -> Chunk:
        """Return one chunk, by its position among all; raises IndexUnusable."""
        start = int(self._ends[number - 1]) + 1 if number else 0
        line = self._rows[start : self._ends[number]].tobytes()
        if not _ROW.fullmatch(line):
            raise IndexUnusable("a chunk is not as it was written")
        try:
            source, document, place, text = json.loads(line)
        except ValueError as error:
            raise IndexUnusable("a chunk is not as it was written") from error
        return Chunk(source, (document, place), text)

    def require_readable(self) -> None:
        """Read all chunks; raises IndexUnusable."""
        for number in range(len(self._ends)):
            self.chunk(number)


def _line_ends(rows: NDArray[np.uint8], count: int) -> NDArray[np.int64]:
    """Return where so many lines end; raises IndexUnusable if there are more or fewer."""
    is_end = rows == _NEWLINE
    if np.count_nonzero(is_end) != count or not is_end[-1]:
        raise IndexUnusable(_MISFITS)
    return np.flatnonzero(is_end)
