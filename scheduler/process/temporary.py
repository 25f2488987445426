"""Temporary directories that are cleaned up even if their process is killed.

Each is locked by its process while that lives. An unlocked one was left by a killed process, and
the next process removes it. Cleaners of temporary files skip locked directories.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path

from sleipnir.lazy import lazy_imports

with lazy_imports():
    from sleipnir.graphs.bundles import archive

_PREFIX = "sleipnir-tmp-"


class OwnDirectory:
    """A directory of this process, removed by `close`, or else by a later process."""

    def __init__(self) -> None:
        """Create it, and remove abandoned ones.

        Raises:
            OSError: it cannot be created, for lack of space or permission.
        """
        _remove_abandoned(Path(tempfile.gettempdir()))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = _locked(self.path, wait=True)
            if lock is not None:  # else another process has taken it for abandoned
                self._lock = lock
                return

    def close(self) -> None:
        """Remove it with its contents."""
        _remove(self.path)
        os.close(self._lock)

    def __enter__(self) -> OwnDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def keep_temporary_files() -> OwnDirectory:
    """Create all further temporary files of this process in a directory of its own.

    Raises:
        OSError: it cannot be made.
    """
    own = OwnDirectory()
    tempfile.tempdir = str(own.path)
    return own


def make_temporary_files_in(directory: Path) -> None:
    """Create further temporary files of this process in a directory that its creator removes."""
    tempfile.tempdir = str(directory)


def scratch(purpose: str) -> tempfile.TemporaryDirectory[str]:
    """Return a temporary directory for one use.

    Raises:
        OSError: it cannot be made.
    """
    # Its user may still be cleaning up in it, or have made parts of it inaccessible.
    prefix = f"sleipnir-{purpose}-"
    try:
        return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except FileNotFoundError:
        tempfile.tempdir = None  # ours was removed: use the system's
        return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)


def _remove_abandoned(place: Path) -> None:
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        found = [Path(entry.path) for entry in entries if entry.name.startswith(_PREFIX)]
        for path in found:
            lock = _locked(path, wait=False)
            if lock is not None:
                _remove(path)
                os.close(lock)


def _locked(path: Path, *, wait: bool) -> int | None:
    """Lock a directory of our user; None if it is locked, gone, or not ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid() and os.path.samestat(found, path.stat()):
            return descriptor
    except OSError:  # in use, or removed
        pass
    os.close(descriptor)
    return None


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        archive.remove_unpacked(path)
