"""Any number of chunks, made of words as frequent as in the documentation."""

from __future__ import annotations

import re

import numpy as np

from sleipnir.graphs.knowledge.build_settings import BuildSettings
from sleipnir.worker.bench.rag.corpus import corpus
from sleipnir.worker.knowledge.index import Chunk, EmbedChunks
from sleipnir.worker.knowledge.vectors import Matrix, normalised

DIMENSION = 256
SETTINGS = BuildSettings("bench:random", 1000, 50)
_PACKAGES = ("celery", "tornado")
_WORDS = 130  # make about 1,000 characters
_PER_DOCUMENT = 50  # chunks
_SEED = 13


def chunks(count: int) -> list[Chunk]:
    """Return chunks of about 1,000 characters, the same ones each time."""
    words = [
        word
        for document in corpus(_PACKAGES).documents
        for word in re.findall(r"\S+", document.text)
    ]
    chosen = np.random.default_rng(_SEED).integers(0, len(words), (count, _WORDS))
    return [
        Chunk(f"./{number // _PER_DOCUMENT}.txt", divmod(number, _PER_DOCUMENT), text)
        for number, text in enumerate(" ".join(words[n] for n in row) for row in chosen)
    ]


def vectors(count: int) -> Matrix:
    """Return vectors in random directions, to stand for those of texts."""
    made = np.random.default_rng(_SEED).standard_normal((count, DIMENSION), dtype=np.float32)
    return normalised(made)


def in_turn(vectors: Matrix) -> EmbedChunks:
    """Return a function that gives chunks these vectors, in order."""
    given = iter(vectors)
    return lambda chunks: np.stack([next(given) for _ in chunks])
