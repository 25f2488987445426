"""Indexes outside of Redis: in a directory, or wherever fsspec finds its way."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from sleipnir.graphs.files import MIB
from sleipnir.scheduler.errors import ArtifactStoreFailed
from sleipnir.scheduler.store.knowledge.artifact_store import OutsideIndexes
from sleipnir.scheduler.store.knowledge.indexes import Indexes
from sleipnir.scheduler.store.knowledge.packed import PackedIndex
from tests.support.engine import Engine
from tests.support.knowledge import BY_WORDS, PETS

CONTENT = b"data" * 400_000
PACKED = PackedIndex("d1", BytesIO(CONTENT), {"files": 2})


def fetched(indexes: OutsideIndexes, address: str) -> tuple[str | None, bytes]:
    into = BytesIO()
    return indexes.fetch(address, into), into.getvalue()


@pytest.fixture(params=["directory", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "directory":
        yield str(tmp_path / "store")
        return
    yield "memory://indexes"
    fsspec.filesystem("memory").store.clear()


def test_what_is_put_is_found(url: str) -> None:
    indexes = OutsideIndexes(url, 60)
    assert (fetched(indexes, "a"), indexes.record("a")) == ((None, b""), None)

    indexes.put("a", PACKED)
    indexes.put("a", PACKED)

    assert fetched(OutsideIndexes(url, 60), "a") == ("d1", CONTENT)


def test_a_record_that_says_nothing_is_as_none(tmp_path: Path) -> None:
    indexes = OutsideIndexes(str(tmp_path), 60)
    for text in ("", "[]", "{}", '{"digest": "d1", "info": {}}'):
        indexes.put("a", PACKED)
        (tmp_path / "a.json").write_text(text)

        assert indexes.record("a") is None


@pytest.mark.parametrize("kind", ["directory", "redis"])
def test_a_large_index_is_moved_in_small_parts(engine: Engine, tmp_path: Path, kind: str) -> None:
    settings = replace(
        engine.store.settings, artifact_store=str(tmp_path) if kind == "directory" else None
    )
    indexes = Indexes(engine.store.client, settings)
    with TemporaryFile() as content, TemporaryFile() as arrived, peak_below(8 * MIB):
        content.truncate(24 * MIB)
        content.write(b"begins")
        digest = hashlib.file_digest(content, "sha256").hexdigest()

        indexes.put("a", PackedIndex(digest, content))

        assert indexes.fetch("a", arrived) == digest
        assert arrived.tell() == 24 * MIB
        arrived.seek(0)
        assert arrived.read(6) == b"begins"


@contextmanager
def peak_below(limit_bytes: int) -> Iterator[None]:
    """Check that what the block does needs no more memory at once."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit_bytes


class Remembering(MemoryFileSystem):
    """Looks files up in the listings it had, as those of object stores do."""

    protocol = "remembering"

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        found = self.dircache.get(path) or super().ls(path, detail=True, **options)
        self.dircache[path] = found
        return found if detail else [entry["name"] for entry in found]

    def exists(self, path: str, **options: Any) -> bool:
        listed = self.dircache.get(path.rpartition("/")[0])
        if listed is None:
            return bool(super().exists(path, **options))
        return path in [entry["name"] for entry in listed]


def test_what_another_machine_stored_since_is_found() -> None:
    fsspec.register_implementation("remembering", Remembering, clobber=True)
    try:
        indexes = OutsideIndexes("remembering://indexes", 60)
        indexes.put("a", PACKED)
        for name in ("b", "b.json"):  # not by way of this object: as if elsewhere
            Remembering.store[f"{indexes._root}/{name}"] = Remembering.store[
                f"{indexes._root}/{name.replace('b', 'a', 1)}"
            ]

        assert fetched(indexes, "b") == ("d1", CONTENT)
    finally:
        Remembering.store.clear()


def test_what_nobody_uses_goes_with_the_next_one(url: str) -> None:
    now = [1000.0]
    indexes = OutsideIndexes(url, 60, lambda: now[0])
    indexes.put("used", PACKED)
    indexes.put("unused", PACKED)
    now[0] += 40
    assert indexes.record("used") is not None
    now[0] += 40

    indexes.put("new", PACKED)

    assert [name for name in ("used", "unused", "new") if indexes.record(name)] == ["used", "new"]


def test_a_worker_that_shares_the_place_alone_finds_what_another_built(
    engine: Engine, tmp_path: Path, url: str
) -> None:
    engine.configure(artifact_store=url)
    assert engine.finish(BY_WORDS, PETS, prompt="cats").status == "succeeded"
    assert engine.redis.keys("sleipnir:index:*") == []
    engine._directory = tmp_path / "another machine"
    engine.configure(artifact_store=url)

    run = engine.finish(BY_WORDS, PETS, prompt="dogs")

    assert engine.state(run.run_id)["sources"] == ["./docs/dogs.md"]
    assert engine.queries.children(run.run_id) == []


def test_a_place_that_cannot_be_used_is_named(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for url, words in ((str(tmp_path / "file"), "artifact_store"), ("nosuch://x", "nosuch")):
        with pytest.raises(ArtifactStoreFailed, match=words):
            OutsideIndexes(url, 60).put("a", PACKED)
        engine.configure(artifact_store=url)
        failure = engine.failure(engine.finish(BY_WORDS, PETS, prompt="cats").run_id)
        assert (failure.code, failure.node) == ("R020", "look_up")
        assert words in failure.message
