"""The vector index of a knowledge base: nearest neighbours by cosine, stored by faiss."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from sleipnir.worker.knowledge.vector_file import require_sound

Matrix = NDArray[np.float32]

# Above this size an exact search takes longer than people wait.
_EXACT_UP_TO = 200_000
_HNSW_LINKS = 32
_HNSW_BUILD = 200
_HNSW_SEARCH = 64
_NUMBER_BYTES = 4
# Many times what models have.
_MOST_DIMENSIONS = 65_536
_ADDED_AT_ONCE = 1000


class VectorsUnusable(Exception):
    """Vectors cannot be stored in an index; the text says why."""


def _use_one_thread() -> None:
    """Keep faiss from starting more threads for this thread.

    They would compete with the worker's; and an index built in another order would differ.
    """
    faiss.omp_set_num_threads(1)


def normalised(vectors: Sequence[Sequence[float]] | Matrix, dimension: int | None = None) -> Matrix:
    """Scale vectors to length 1.

    Raises:
        VectorsUnusable: they differ in dimension, have too many, or values that are not finite.
    """
    if len({len(vector) for vector in vectors}) > 1:
        raise VectorsUnusable("the vectors have different dimensions")
    matrix = np.asarray(vectors, dtype=np.float32)
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise VectorsUnusable("the vectors are empty")
    if matrix.shape[1] > _MOST_DIMENSIONS:
        raise VectorsUnusable(f"the vectors have more than {_MOST_DIMENSIONS} dimensions")
    if dimension is not None and matrix.shape[1] != dimension:
        raise VectorsUnusable(f"the vectors have dimension {matrix.shape[1]}, not {dimension}")
    if not np.isfinite(matrix).all():
        raise VectorsUnusable("a vector has values that are not finite")
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    made: Matrix = (matrix / np.where(lengths == 0, 1, lengths)).astype(np.float32)
    return made


class VectorWriter:
    """Makes an index of normalised vectors, numbered in the order in which they are added.

    Vectors wait in a file until all are there, so that the index's memory is allocated at once: one
    that grows is copied repeatedly, and takes up to three times as much.

    Args:
        file: the file of the index.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._waiting = file.with_suffix(".waiting")
        self.dimension: int | None = None  # of the vectors so far; None if there is none
        self._count = 0

    def add(self, vectors: Matrix) -> None:
        """Add vectors.

        Raises:
            VectorsUnusable: they differ in dimension from those before.
            OSError: they cannot be written.
        """
        count, dimension = vectors.shape
        if self.dimension not in (None, dimension):
            raise VectorsUnusable("the vectors have different dimensions")
        self.dimension = dimension
        self._count += count
        with self._waiting.open("ab") as waiting:
            waiting.write(vectors.astype(np.float32).tobytes())

    def write(self) -> None:
        """Write the index, if there are any vectors.

        Raises:
            OSError: it cannot be written.
        """
        if self.dimension is None:
            return
        _use_one_thread()
        index = _empty_index(self.dimension, self._count)
        with self._waiting.open("rb") as waiting:
            while block := waiting.read(_ADDED_AT_ONCE * self.dimension * _NUMBER_BYTES):
                index.add(np.frombuffer(block, np.float32).reshape(-1, self.dimension))
        self._waiting.unlink()
        try:
            faiss.write_index(index, str(self._file))
        except RuntimeError as error:  # faiss does not say why the file could not be written
            raise OSError("no room for its vectors") from error


def _empty_index(dimension: int, count: int) -> Any:
    """Return an index with memory for so many vectors."""
    index: Any = faiss.IndexFlatIP(dimension)
    flat = index
    if count > _EXACT_UP_TO:
        index = faiss.IndexHNSWFlat(dimension, _HNSW_LINKS, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction = _HNSW_BUILD
        index.hnsw.efSearch = _HNSW_SEARCH
        flat = faiss.downcast_index(index.storage)
    # Memory cannot be reserved in any other way: a vector that shrinks keeps its memory.
    flat.codes.resize(count * dimension * _NUMBER_BYTES)
    flat.codes.resize(0)
    return index


class Vectors:
    """An open vector index; thread-safe."""

    def __init__(self, file: Path) -> None:
        """Open an index.

        Raises:
            OSError, IndexUnusable: it cannot be read, or is not as faiss writes it.
        """
        require_sound(file)
        self._index: Any = faiss.read_index(str(file))

    @property
    def count(self) -> int:
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        return int(self._index.d)

    def search(self, queries: Matrix, top_k: int) -> list[tuple[int, float]]:
        """Return all positions near to any of the queries with their best scores, best first."""
        _use_one_thread()
        scores, positions = self._index.search(queries, min(top_k, self.count))
        best: dict[int, float] = {}
        for position, score in zip(
            positions.ravel().tolist(), scores.ravel().tolist(), strict=True
        ):
            if position >= 0 and score > 0:
                best[position] = max(score, best.get(position, 0.0))
        return sorted(best.items(), key=lambda hit: (-hit[1], hit[0]))

    def vector(self, position: int) -> Matrix:
        """Return the vector at a position."""
        found: Matrix = self._index.reconstruct(position)
        return found
