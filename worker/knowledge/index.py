"""An index on disk: chunks, their keywords and vectors, and a manifest of its inputs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from sleipnir.graphs.knowledge.address import INDEX_FORMAT, DocumentHash, address_of
from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.graphs.knowledge.chunking import split
from sleipnir.records import dataclass
from sleipnir.worker.knowledge.keywords import Keywords, write_keywords
from sleipnir.worker.knowledge.reading.documents import SourceText
from sleipnir.worker.knowledge.vectors import Matrix, Vectors, VectorWriter

_MANIFEST = "manifest.json"
_CHUNKS = "chunks.jsonl"
_VECTORS = "faiss.index"
_KEYWORDS = "keywords"
_EMBEDDED_AT_ONCE = 1000
# Versions recorded in the manifest, for indexes of unknown origin.
_TOOLS = ("sleipnir", "faiss-cpu", "whoosh")


class IndexUnusable(Exception):
    """An index cannot be opened; the text says why."""


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


@dataclass(frozen=True, slots=True)
class IndexSize:
    """The size of an index."""

    chunks: int
    dimension: int | None  # of its vectors; None: keywords only


def write_index(
    directory: Path,
    settings: BuildSettings,
    hashes: Sequence[DocumentHash],
    chunks: Iterable[Chunk],
    embed: EmbedChunks | None,
) -> IndexSize:
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
    size = IndexSize(vectors.chunks, vectors.dimension)
    manifest = {
        "format": INDEX_FORMAT,
        "address": address_of(settings, hashes),
        "settings": settings.to_json(),
        "index_model": settings.index_model,
        "sources": [[hash.source, hash.ext, hash.content] for hash in hashes],
        "chunks": size.chunks,
        "dimension": size.dimension,
        "tools": {name: version(name) for name in _TOOLS},
        "digests": _digests(directory),
    }
    (directory / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    return size


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


def require_undamaged(directory: Path) -> None:
    """Compare the files of an index with their hashes when it was made.

    Raises:
        IndexUnusable: one differs, or cannot be read.
    """
    try:
        digests = dict(json.loads((directory / _MANIFEST).read_bytes())["digests"])
        found = _digests(directory)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise IndexUnusable(f"the index is damaged: {error}") from error
    del found[_MANIFEST]
    for name in sorted({*digests, *found}):
        if digests.get(name) != found.get(name):
            raise IndexUnusable(f"the index is damaged: {name}")


def _digests(directory: Path) -> dict[str, str]:
    """Return the hashes of all files, by path."""
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): _digest(path) for path in files}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Index:
    """An open index, read-only; thread-safe.

    Raises:
        IndexUnusable: it is incomplete.
    """

    def __init__(self, directory: Path, address: str = "") -> None:
        self.address = address
        try:
            self.manifest: dict[str, Any] = json.loads((directory / _MANIFEST).read_bytes())
            self.settings = BuildSettings(**self.manifest["settings"])
            self._lines = (directory / _CHUNKS).read_bytes().splitlines()
            file = directory / _VECTORS
            self.vectors = Vectors(file) if self.dimension is not None else None
            counts = {len(self._lines), self.manifest["chunks"]}
            # Of an older format only the vectors are of use, as they may have cost money.
            self.is_searchable = self.manifest["format"] == INDEX_FORMAT
            if self.is_searchable:
                self.keywords = Keywords(directory / _KEYWORDS)
                counts.add(self.keywords.count)
        except Exception as error:  # faiss raises many exceptions of its own
            raise IndexUnusable(f"the index is damaged: {error}") from error
        dimensions = {self.dimension}
        if self.vectors is not None:
            counts.add(self.vectors.count)
            dimensions.add(self.vectors.dimension)
        if len(counts) != 1 or len(dimensions) != 1:
            raise IndexUnusable("the index is damaged: its parts do not belong together")

    @property
    def dimension(self) -> int | None:
        """Dimension of its vectors; None: keywords only."""
        return None if self.manifest["dimension"] is None else int(self.manifest["dimension"])

    @property
    def bytes(self) -> int:
        """Approximate size in memory."""
        vectors = 4 * (self.dimension or 0) * len(self._lines)
        keywords = self.keywords.bytes if self.is_searchable else 0
        return vectors + keywords + sum(map(len, self._lines))

    def chunk(self, number: int) -> Chunk:
        """Return one chunk, by its position among all; raises IndexUnusable."""
        try:
            source, document, place, text = json.loads(self._lines[number])
        except (ValueError, TypeError, RecursionError) as error:
            raise IndexUnusable(f"the index is damaged: {error}") from error
        if [*map(type, (source, document, place, text))] != [str, int, int, str]:
            raise IndexUnusable("the index is damaged: a chunk is none")
        return Chunk(source, (document, place), text)

    def by_words(self, query: str, top_k: int) -> list[tuple[int, float]]:
        """Return the positions that best match a query's words."""
        return self.keywords.search(query, top_k)

    def rarity(self, word: str) -> float:
        """Return how rare a word is in the index, 0 if it does not count."""
        return self.keywords.rarity(word)
