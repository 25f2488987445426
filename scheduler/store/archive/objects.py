"""Objects of the archive, none of which is ever overwritten.

They are in a directory, or anywhere fsspec can write.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from sleipnir.scheduler.errors import ArchiveFailed, ObjectMissing
from sleipnir.scheduler.process.shared_files import SharedFiles
from sleipnir.scheduler.process.timed_requests import TimedRequests

# Nothing larger is ever read: the parts of a run have limits, and shrink.
MOST_BYTES: Final = 512 * 1024 * 1024
# For a request to a URL.
TIMEOUT_S: Final = 20.0

T = TypeVar("T")


class Objects(SharedFiles):
    """Files below the directory or URL of the setting `archive`.

    Args:
        url: a path, or a URL of fsspec.
        timeout_s: for a request to a URL.
    """

    _SETTING = "archive"
    _FAILED = ArchiveFailed

    def __init__(self, url: str, timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(url)
        self._requests = TimedRequests(timeout_s)

    def create(self, name: str, data: bytes) -> bool:
        """Write a new object; return False if there is one.

        It is on disk once `sync` of its directory has returned, too.

        Raises:
            ArchiveFailed: it cannot be written.
        """
        with self._translating_errors():
            path = self._path(name)
            try:
                self._create(path, data)
            except FileExistsError:
                return False
            except FileNotFoundError:  # the first of its day
                folder = path.rpartition("/")[0]
                self._ask(lambda: self._files.makedirs(folder, exist_ok=True))
                self._create(path, data)
                if self._is_directory:
                    for directory in Path(path).parents[1 : 1 + name.count("/")]:
                        _sync(directory)
            return True

    def sync(self, directory: str) -> None:
        """Have the names of a directory's objects survive a loss of power.

        Once for many objects: it takes as long as writing one.

        Raises:
            ArchiveFailed: that fails.
        """
        if self._is_directory:
            with self._translating_errors():
                _sync(Path(self._path(directory)))

    def _create(self, path: str, data: bytes) -> None:
        if self._is_directory:
            _write(Path(path), data)
        else:
            self._ask(lambda: self._files.pipe_file(path, data, mode="create"))

    def _ask(self, request: Callable[[], T]) -> T:
        """Return what the store answers to a request; a directory is just asked."""
        return request() if self._is_directory else self._requests.ask(request)

    @property
    def _is_directory(self) -> bool:
        return "file" in self._files.protocol

    def read(self, name: str, most_bytes: int = MOST_BYTES) -> bytes:
        """Return an object.

        Raises:
            ObjectMissing: there is none of that name.
            ArchiveFailed: it cannot be read, or is too large.
        """
        with self._translating_errors():
            try:
                data = self._read(self._path(name), most_bytes + 1)
            except FileNotFoundError as error:
                raise ObjectMissing(
                    f"{self.url} (archive) has no {name}; is all of it mounted there?"
                ) from error
        if len(data) > most_bytes:
            raise ArchiveFailed(f"{self.url}/{name} has more than {most_bytes:,} bytes")
        return data

    def _read(self, path: str, most_bytes: int) -> bytes:
        if not self._is_directory:
            found: bytes = self._ask(lambda: self._files.cat_file(path, start=0, end=most_bytes))
            return found
        with Path(path).open("rb") as opened:  # a third of the time that fsspec takes
            return opened.read(min(os.fstat(opened.fileno()).st_size, most_bytes))

    def written_ms(self, name: str) -> int | None:
        """Return when an object was written; None if there is none, or its store does not tell.

        Raises:
            ArchiveFailed: the store cannot be asked.
        """
        with self._translating_errors():
            try:
                written = self._ask(lambda: self._files.modified(self._path(name)))
            except (FileNotFoundError, NotImplementedError):
                return None
            return int(1000 * written.timestamp())

    def remove(self, name: str) -> None:
        """Remove an object, if it is there.

        Raises:
            ArchiveFailed: it cannot be removed.
        """
        with self._translating_errors(), suppress(FileNotFoundError):
            self._ask(lambda: self._files.rm_file(self._path(name)))

    def names(self, prefix: str) -> list[str]:
        """Return the names of what is directly in a directory, sorted; of directories too.

        Raises:
            ArchiveFailed: it cannot be listed.
        """
        with self._translating_errors():
            try:
                found = self._ask(lambda: self._files.ls(self._path(prefix), detail=False))
            except FileNotFoundError:
                return []
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found)


def _write(file: Path, data: bytes) -> None:
    """Write a new file, whose content then survives a loss of power."""
    with file.open("xb") as opened:
        try:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        except OSError:  # a part of it would take a name at each try on a full disk
            file.unlink()
            raise


def _sync(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
