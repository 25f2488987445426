"""What this process may use of its machine, as its control groups (version 2) limit it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from math import ceil
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def cores(root: Path = _ROOT, own: Path = _OWN) -> int:
    """Return how many cores this process may use, rounded up."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    found = len(affinity(0)) if affinity else os.cpu_count() or 1
    for text in _limits("cpu.max", root, own):
        quota, period = map(int, text.split())
        found = min(found, ceil(quota / period))
    return found


def memory_limit_bytes(root: Path = _ROOT, own: Path = _OWN) -> int | None:
    """Return how much memory this process may use, together with others of its group."""
    return min(map(int, _limits("memory.max", root, own)), default=None)


def _limits(name: str, root: Path, own: Path) -> Iterator[str]:
    """Yield a limit of the group and of those that it is in, as far as they have one."""
    try:
        (path,) = [
            line.removeprefix("0::/")
            for line in own.read_text().splitlines()
            if line.startswith("0::/")
        ]
    except (OSError, ValueError):  # another system, or version 1
        return
    group = root / path
    for directory in (group, *group.parents):
        if directory.is_relative_to(root):
            try:
                text = (directory / name).read_text().strip()
            except OSError:  # the root has none, nor has what is outside of a container
                continue
            if not text.startswith("max"):
                yield text
