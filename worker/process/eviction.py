"""Evicts what earlier runs have left in this machine's caches."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from sleipnir.graphs.bundles.archive import remove_unpacked


def evict_unused(directory: Path, unused_for_s: float) -> int:
    """Remove a cache's entries that were not used for so long; return how many.

    What is still needed is fetched again. Ages are measured by the file system's clock.
    """
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.utime(directory)
    now = directory.stat().st_mtime
    leftovers = [
        entry for entry in directory.iterdir() if now - entry.stat().st_mtime > unused_for_s
    ]
    for entry in leftovers:
        # Another worker on this machine may be removing it too.
        with contextlib.suppress(FileNotFoundError):
            remove_unpacked(entry)
    return len(leftovers)
