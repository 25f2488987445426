"""Waits for files to be saved, by polling their modification times."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from sleipnir.scheduler.process.periodic import pause

# The polling interval, and the quiet time after which a save is complete.
_EVERY_S = 0.25
# Files of editors, Git and Python, which no run reads.
_IGNORED_ENDINGS = ("~", ".swp", ".tmp", ".pyc")

# Directory → path → modification time in ns and size.
Times: TypeAlias = Mapping[Path, Mapping[str, tuple[int, int]]]


class Watch:
    """Watches the files below some directories.

    Args:
        directories: returns the directories at each poll; missing ones have no files.
    """

    def __init__(self, directories: Callable[[], Iterable[Path]]) -> None:
        self._directories = directories
        self._seen = self._look()

    def wait(self) -> None:
        """Wait until something was saved since the last call, and saving is complete."""
        while not _differ(self._seen, found := self._look()):
            self._seen = found
            pause(_EVERY_S)
        while _differ(self._seen, found):
            self._seen = found
            pause(_EVERY_S)
            found = self._look()

    def _look(self) -> Times:
        return {folder: dict(_files(folder)) for folder in self._directories()}


def _differ(before: Times, now: Times) -> bool:
    """Return whether files changed in directories that were polled both times."""
    return any(before[folder] != now[folder] for folder in before.keys() & now.keys())


def _files(directory: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    for folder, subfolders, names in os.walk(directory):
        subfolders[:] = [name for name in subfolders if name[0] != "." and name != "__pycache__"]
        for name in names:
            if name.endswith(_IGNORED_ENDINGS) or name.startswith(".#"):
                continue
            path = os.path.join(folder, name)  # noqa: PTH118  # thousands of them, again and again
            try:
                found = os.stat(path)  # noqa: PTH116
            except OSError:  # removed meanwhile
                continue
            yield path, (found.st_mtime_ns, found.st_size)
