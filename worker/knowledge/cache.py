"""The indexes on a worker's machine: on disk by address, open ones in memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import TypeGuard

from sleipnir.graphs.bundles.archive import UNPACKED_LIMIT_BYTES, remove_unpacked, unpack_from
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.files import reason
from sleipnir.scheduler.store.knowledge.indexes import Indexes
from sleipnir.worker.knowledge.errors import KnowledgeFailed, StoredDamaged
from sleipnir.worker.knowledge.index import Index
from sleipnir.worker.knowledge.manifest import IndexUnusable, require_undamaged

# Name in an archive, as an index is a directory.
INDEX_DIRECTORY = "index"
# Approximate memory for open indexes; the one used last may take more.
_OPEN_BYTES = UNPACKED_LIMIT_BYTES


class IndexCache:
    """Indexes by address; safe for threads and for several processes at once."""

    def __init__(self, indexes: Indexes, directory: Path, limit_bytes: int) -> None:
        self._indexes = indexes
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._opened: OrderedDict[str, Index] = OrderedDict()
        self._lock = Lock()

    def get(self, address: str, *, for_search: bool = True) -> Index | None:
        """Return the index at an address, fetched and checked if need be; None without one.

        One of an older format does not count if it is to be searched.

        Raises:
            StoredDamaged: it is damaged in the store.
            KnowledgeFailed: it cannot be unpacked here.
        """
        with self._lock:
            found = self._opened.get(address)
            if found is None:
                found = self._open(address)
            if found is not None:
                self._opened[address] = found
                self._opened.move_to_end(address)
                self._close_others()
            if found is not None and for_search and not found.is_searchable:
                return None
            return found

    def forget(self, address: str) -> None:
        """Close and remove a damaged index, so that the next `get` fetches it again."""
        with self._lock:
            self._opened.pop(address, None)
            self._remove(self._directory / address)

    def _open(self, address: str) -> Index | None:
        target = self._directory / address
        if target.exists():
            try:
                os.utime(target)  # in use: the least recently used are removed first
                require_undamaged(target / INDEX_DIRECTORY)
                return Index(target / INDEX_DIRECTORY, address)
            except (OSError, IndexUnusable):
                self._remove(target)
        for last in (False, True):
            try:
                self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
                with tempfile.TemporaryFile(dir=self._directory) as content:
                    digest = self._indexes.fetch(address, content)
                    if digest is None:
                        return None
                    unpack_from(content, digest, target)
                index = Index(target / INDEX_DIRECTORY, address)
            except (BundleError, IndexUnusable) as error:
                self._remove(target)
                if _is_from_disk(error.__cause__):
                    raise self._not_unpacked(error.__cause__) from error
                if last:
                    raise StoredDamaged(str(error)) from error
            except OSError as error:
                raise self._not_unpacked(error) from error
            else:
                self._make_room(target)
                return index
        return None

    def _not_unpacked(self, error: OSError) -> KnowledgeFailed:
        return KnowledgeFailed(f"cannot unpack the index to {self._directory}: {reason(error)}")

    def _close_others(self) -> None:
        while sum(index.bytes for index in self._opened.values()) > _OPEN_BYTES:
            if len(self._opened) == 1:
                return
            self._opened.popitem(last=False)

    def _make_room(self, newest: Path) -> None:
        """Remove the least recently used indexes from the disk, but not the newest."""
        entries = []
        for entry in self._directory.iterdir():
            # Another process may be doing the same.
            with contextlib.suppress(OSError):
                entries.append((entry.stat().st_mtime, _size(entry), entry))
        total = sum(size for _, size, _ in entries)
        for _, size, entry in sorted(entries, key=lambda found: found[0]):
            if total <= self._limit_bytes:
                return
            if entry != newest:
                self._remove(entry)
                total -= size

    def _remove(self, target: Path) -> None:
        with contextlib.suppress(OSError):
            remove_unpacked(target)
        shutil.rmtree(target, ignore_errors=True)


def _is_from_disk(error: BaseException | None) -> TypeGuard[OSError]:
    """Return whether the machine failed: gzip's errors about damaged data have no errno."""
    return isinstance(error, OSError) and error.errno is not None


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
