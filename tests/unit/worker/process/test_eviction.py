from __future__ import annotations

import os
from pathlib import Path

from sleipnir.worker.process.eviction import evict_unused


def test_only_what_nobody_touched_for_long_is_removed(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("x")
    (tmp_path / "old").chmod(0o500)
    os.utime(tmp_path / "old", (0, 0))

    removed = evict_unused(tmp_path, unused_for_s=3600)

    assert removed == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["new"]


def test_a_cache_that_does_not_exist_yet_is_made(tmp_path: Path) -> None:
    evict_unused(tmp_path / "cache", unused_for_s=1)

    assert (tmp_path / "cache").is_dir()
