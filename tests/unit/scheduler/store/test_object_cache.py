"""The cache of archived runs on a machine's disk."""

from __future__ import annotations

import os
from pathlib import Path

from sleipnir.scheduler.store.archive.cache import ObjectCache

LIMIT_BYTES = 1600


def test_the_least_recently_used_objects_leave_the_disk(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "cache", LIMIT_BYTES)
    for number in range(10):
        cache.put(f"{number}", bytes(100))
        os.utime(tmp_path / "cache" / f"{number}", (number, number))
    assert cache.get("0") == bytes(100)

    for number in range(10, 20):
        cache.put(f"{number}", bytes(100))

    kept = [number for number in range(20) if cache.get(f"{number}") is not None]
    assert 0 in kept
    assert 1 not in kept
    assert 100 * len(kept) <= LIMIT_BYTES


def test_what_is_larger_than_the_cache_is_not_kept(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "cache", LIMIT_BYTES)

    cache.put("a", bytes(LIMIT_BYTES + 1))

    assert cache.get("a") is None


def test_a_directory_that_cannot_be_written_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    cache = ObjectCache(tmp_path / "cache", LIMIT_BYTES)

    cache.put("a", b"x")

    assert cache.get("a") is None
