"""Indexes outside of Redis: in a directory, or wherever fsspec finds its way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from sleipnir.scheduler.errors import ArtifactStoreFailed
from sleipnir.scheduler.store.knowledge.artifact_store import OutsideIndexes
from sleipnir.scheduler.store.knowledge.packed import PackedIndex
from tests.support.engine import Engine
from tests.support.knowledge import BY_WORDS, PETS

PACKED = PackedIndex("d1", b"data", {"files": 2})


@pytest.fixture(params=["directory", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "directory":
        yield str(tmp_path / "store")
        return
    yield "memory://indexes"
    fsspec.filesystem("memory").store.clear()


def test_what_is_put_is_found_and_can_be_removed(url: str) -> None:
    indexes = OutsideIndexes(url, 60)
    assert (indexes.get("a"), indexes.record("a")) == (None, None)

    indexes.put("a", PACKED)
    indexes.put("a", PACKED)

    assert OutsideIndexes(url, 60).get("a") == PACKED
    indexes.remove("a")
    indexes.remove("a")
    assert indexes.get("a") is None


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

        assert indexes.get("b") == PACKED
    finally:
        Remembering.store.clear()


def test_what_nobody_uses_goes_with_the_next_one(url: str) -> None:
    now = [1000.0]
    indexes = OutsideIndexes(url, 60, lambda: now[0])
    indexes.put("used", PACKED)
    indexes.put("unused", PACKED)
    now[0] += 40
    assert indexes.get("used") is not None
    now[0] += 40

    indexes.put("new", PACKED)

    assert [name for name in ("used", "unused", "new") if indexes.get(name)] == ["used", "new"]


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
