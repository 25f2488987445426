"""Removes what former runs left on this machine."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sleipnir.graphs.bundles.archive import remove_unpacked


def evict_unused(directory: Path, unused_for_s: float) -> int:
    """Remove the entries of a cache that nobody touched for so long; returns how many.

    What is still wanted is fetched again. Ages are taken from the clock of the file system.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.utime(directory)
    now = directory.stat().st_mtime
    leftovers = [
        entry for entry in directory.iterdir() if now - entry.stat().st_mtime > unused_for_s
    ]
    for entry in leftovers:
        # Another worker of this machine may be removing it as well.
        with contextlib.suppress(FileNotFoundError):
            remove_unpacked(entry)
    return len(leftovers)
