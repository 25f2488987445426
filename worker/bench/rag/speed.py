"""What building, opening and searching a knowledge base take, compared with bare libraries."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter

from sleipnir.lazy import lazy_imports
from sleipnir.worker.bench.rag import texts
from sleipnir.worker.bench.rag.questions import questions
from sleipnir.worker.bench.rows import Row, Sample, row
from sleipnir.worker.knowledge import building
from sleipnir.worker.knowledge.index import Chunk, Index, write_index
from sleipnir.worker.knowledge.reading.documents import SourceText
from sleipnir.worker.knowledge.search import search
from sleipnir.worker.knowledge.vectors import Matrix

with lazy_imports():
    import sqlite3

    from whoosh import analysis, fields
    from whoosh.filedb import filestore

_TOP_K = 5
_OPENINGS = 15
_LIMIT_BYTES = 4 * 1024**3
_HASHES = [SourceText("./0.txt", "txt", "").hash]
_PEAK = "from sleipnir.worker.bench.rag.speed import print_peak; print_peak({count})"


def speed(count: int) -> Iterator[Row]:
    """Yield all measurements with that many chunks.

    Raises:
        NoCorpus: the corpus that the chunks are made of is not installed.
    """
    chunks, vectors = texts.chunks(count), texts.vectors(count)
    bare = _times(1, lambda: _in_directory(lambda path: _bare_whoosh(path, chunks)))
    fts5 = _times(1, lambda: _fts5(chunks).close())
    build = _times(1, lambda: _build(chunks, vectors))
    of = f"{count:,} chunks"
    yield row(f"build and pack, {of}", "index", 1, build, bare)
    yield row("bare whoosh, its keywords", "index", 1, bare, bare)
    yield row("SQLite FTS5, its keywords", "index", 1, fts5, bare)
    yield _memory(count)
    with tempfile.TemporaryDirectory(prefix="sleipnir-bench-") as name:
        write_index(Path(name), texts.SETTINGS, _HASHES, chunks, texts.in_turn(vectors))
        yield row(f"open, {of}", "index", 1, _times(_OPENINGS, lambda: Index(Path(name))), None)
        yield from _queries(Index(Path(name)), chunks, of)


def _queries(index: Index, chunks: Sequence[Chunk], of: str) -> Iterator[Row]:
    """Yield queries of each leg and of both, without embedding the query."""
    asked = [question.text for question in questions()]
    vector = texts.vectors(1)
    assert index.vectors is not None, "it was written with vectors"
    near = index.vectors
    legs = [_times_each(asked, lambda text: index.keywords.search(text, _TOP_K))]
    legs.append(_times_each(asked, lambda _: near.search(vector, _TOP_K)))
    both = _times_each(asked, lambda text: search(index, text, _TOP_K, lambda _: vector))
    yield row(f"query, {of}", "query", 1, both, legs[0])
    yield row("its keywords", "query", 1, legs[0], legs[0])
    yield row("its vectors", "query", 1, legs[1], legs[0])
    database = _fts5(chunks)
    yield row("SQLite FTS5", "query", 1, _times_each(asked, _searcher(database)), legs[0])
    database.close()


def _build(chunks: Sequence[Chunk], vectors: Matrix) -> None:
    embed = texts.in_turn(vectors)
    building.build(texts.SETTINGS, _HASHES, chunks, embed, _LIMIT_BYTES).content.close()


def _memory(count: int) -> Row:
    """Measure a build's memory beyond the chunks and vectors it is given, in KiB per chunk."""
    code = _PEAK.format(count=count)
    done = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE)
    kib = int(done.stdout)
    return Row("memory of the build", "KiB/chunk", kib / count, kib / count)


def print_peak(count: int) -> None:
    """Print, in a process of its own, by how many KiB a build raises its peak memory."""
    chunks, vectors = texts.chunks(count), texts.vectors(count)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
    before = _peak_kib()
    _build(chunks, vectors)
    os.write(1, str(_peak_kib() - before).encode())


def _peak_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def _bare_whoosh(path: Path, chunks: Sequence[Chunk]) -> None:
    """Index with the keyword library as its documentation shows."""
    words = analysis.StemmingAnalyzer()
    schema = fields.Schema(text=fields.TEXT(analyzer=words, phrase=False))
    index = filestore.FileStorage(str(path)).create_index(schema)
    writer = index.writer()
    for chunk in chunks:
        writer.add_document(text=chunk.text)
    writer.commit()
    index.close()


def _fts5(chunks: Sequence[Chunk]) -> sqlite3.Connection:
    """Index the keywords with another engine that could serve behind the same interface."""
    database = sqlite3.connect("")
    database.execute("CREATE VIRTUAL TABLE chunks USING fts5(text, tokenize='porter unicode61')")
    database.executemany("INSERT INTO chunks VALUES (?)", ((chunk.text,) for chunk in chunks))
    database.commit()
    return database


def _searcher(database: sqlite3.Connection) -> Callable[[str], object]:
    statement = "SELECT rowid FROM chunks WHERE chunks MATCH ? ORDER BY rank LIMIT ?"

    def find(text: str) -> object:
        words = "".join(c if c.isalnum() else " " for c in text).split()
        any_of = " OR ".join(f'"{word}"' for word in words)
        return database.execute(statement, (any_of, _TOP_K)).fetchall()

    return find


def _in_directory(act: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="sleipnir-bench-") as name:
        act(Path(name))


def _times(rounds: int, act: Callable[[], object]) -> list[Sample]:
    samples = []
    for _ in range(rounds):
        began = perf_counter()
        act()
        samples.append(Sample(perf_counter() - began, 0.0))
    return samples


def _times_each(asked: Sequence[str], act: Callable[[str], object]) -> list[Sample]:
    return [sample for text in asked for sample in _times(1, partial(act, text))]
