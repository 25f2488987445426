"""Temporary directories that do not outlast their process for long, however that ends.

Each is locked by its process for as long as that lives. One that nobody has locked was left by a
process that was killed, and the next one removes it. Cleaners of temporary files leave locked
directories alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from pathlib import Path
from types import TracebackType

from sleipnir.lazy import lazy_imports

with lazy_imports():
    from sleipnir.graphs.bundles import archive

_PREFIX = "sleipnir-tmp-"


class OwnDirectory:
    """A directory of this process, removed by `close`, at the latest by who comes next."""

    def __init__(self) -> None:
        """Make it, and remove those that others left.

        Raises:
            OSError: it cannot be made: no room, no rights.
        """
        _remove_abandoned(Path(tempfile.gettempdir()))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
            lock = _locked(self.path, wait=True)
            if lock is not None:  # else somebody was faster, and took it for abandoned
                self._lock = lock
                return

    def close(self) -> None:
        """Remove it with all that is in it."""
        _remove(self.path)
        os.close(self._lock)

    def __enter__(self) -> OwnDirectory:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def keep_temporary_files() -> OwnDirectory:
    """From now on all temporary files of this process are made in a directory of its own.

    Raises:
        OSError: it cannot be made.
    """
    own = OwnDirectory()
    tempfile.tempdir = str(own.path)
    return own


def make_temporary_files_in(directory: Path) -> None:
    """From now on, in this process; whoever has made the directory removes it."""
    tempfile.tempdir = str(directory)


def scratch(purpose: str) -> tempfile.TemporaryDirectory[str]:
    """Return a directory for one use.

    Raises:
        OSError: it cannot be made.
    """
    # What used it may still be cleaning up in it, or have closed parts of it to everybody.
    prefix = f"sleipnir-{purpose}-"
    try:
        return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)
    except FileNotFoundError:
        tempfile.tempdir = None  # somebody has removed ours: the system's will do
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
    """Lock a directory of our user; None if that cannot be done, or it is gone by then."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        found = os.fstat(descriptor)
        if found.st_uid == os.geteuid() and os.path.samestat(found, path.stat()):
            return descriptor
    except OSError:  # somebody lives in it, or has removed it
        pass
    os.close(descriptor)
    return None


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        archive.remove_unpacked(path)
