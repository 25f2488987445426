"""Checks a file of vectors before faiss reads it, as indexes come from a store.

Faiss believes what such a file says of its own sizes and links: it takes as much memory as is
named, and follows links that lead elsewhere.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sleipnir.worker.knowledge.manifest import IndexUnusable

_FLAT, _HNSW = b"IxFI", b"IHNf"
_HEADER = struct.Struct("<4siqqqBi")  # kind, dimension, vectors, two unused, trained, metric
_SIZE = struct.Struct("<Q")
_HNSW_NUMBERS = struct.Struct("<iiiii")  # entry point, highest level, and settings
_INNER_PRODUCT = 0


def require_sound(file: Path) -> None:
    """Check that a file holds an index of the kinds that we write.

    Raises:
        OSError: it cannot be read.
        IndexUnusable: it does not.
    """
    if file.stat().st_size < _HEADER.size:
        raise IndexUnusable("the file of vectors is cut")
    reader = _Reader(np.memmap(file, np.uint8, "r"))
    kind, dimension, count = reader.header()
    if kind == _HNSW:
        _require_links_inside(reader, count)
        kind, *inner = reader.header()
        if inner != [dimension, count]:
            raise IndexUnusable("its links and its vectors do not belong together")
    if kind != _FLAT or dimension < 1 or count < 0:
        raise IndexUnusable("the vectors are of an unknown kind")
    if reader.array("<f4").size != dimension * count or not reader.is_at_end:
        raise IndexUnusable("the file of vectors is of another size than it says")


class _Reader:
    """Reads a file from its start to its end."""

    def __init__(self, content: NDArray[np.uint8]) -> None:
        self._content = content
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._content)

    def header(self) -> tuple[bytes, int, int]:
        """Return the kind, the dimension and the number of vectors."""
        kind, dimension, count, _, _, is_trained, metric = self.numbers(_HEADER)
        if is_trained != 1 or metric != _INNER_PRODUCT:
            raise IndexUnusable("the vectors are of an unknown kind")
        return kind, dimension, count

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        return layout.unpack(self._take(layout.size).tobytes())

    def array(self, dtype: str) -> NDArray[Any]:
        """Return the elements of an array, without copying them."""
        kind = np.dtype(dtype)
        (size,) = self.numbers(_SIZE)
        return self._take(size * kind.itemsize).view(kind)

    def _take(self, size: int) -> NDArray[np.uint8]:
        if size > len(self._content) - self._at:
            raise IndexUnusable("the file of vectors is cut")
        self._at += size
        return self._content[self._at - size : self._at]


def _require_links_inside(reader: _Reader, count: int) -> None:
    """Check the graph over the vectors: per vector a level, and places for links up to it."""
    reader.array("<f8")  # probabilities of levels, for building only
    places, levels, offsets, links = map(reader.array, ("<i4", "<i4", "<u8", "<i4"))
    entry, highest, *_ = reader.numbers(_HNSW_NUMBERS)
    is_sound = (
        len(levels) == count
        and len(offsets) == count + 1
        and int(levels.min(initial=1)) >= 1
        and int(levels.max(initial=1)) < len(places)
        and -1 <= highest < len(places) - 1
        and -1 <= entry < count
        and int(offsets[0]) == 0
        and bool((np.diff(places) >= 0).all())
        and bool((np.diff(offsets.astype(np.int64)) == places[levels]).all())
        and int(offsets[-1]) == len(links)
        and int(links.min(initial=-1)) >= -1
        and int(links.max(initial=-1)) < count
    )
    if not is_sound:
        raise IndexUnusable("the links between its vectors lead elsewhere")
