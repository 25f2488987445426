"""Objects of the archive on this machine's disk, the least recently used ones removed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

LIMIT_BYTES: Final = 256 * 1024 * 1024


class ObjectCache:
    """Files by the SHA-256 of their content; several processes may share them.

    A disk that is full, or a directory that cannot be written, only makes it useless.
    """

    def __init__(self, directory: Path, limit_bytes: int = LIMIT_BYTES) -> None:
        self._directory = directory
        self._limit_bytes = limit_bytes
        self._added_bytes = limit_bytes  # since the directory was last measured

    def get(self, digest: str) -> bytes | None:
        """Return the content of a digest, which the caller checks; None if it is not here."""
        file = self._directory / digest
        with suppress(OSError):
            data = file.read_bytes()
            os.utime(file)  # in use
            return data
        return None

    def put(self, digest: str, data: bytes) -> None:
        """Keep a content, and remove the least recently used ones beyond the limit."""
        if len(data) > self._limit_bytes:
            return
        with suppress(OSError):
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            scratch = self._directory / f".{secrets.token_hex(8)}"
            scratch.write_bytes(data)
            scratch.replace(self._directory / digest)
        self._added_bytes += len(data)
        if self._added_bytes > self._limit_bytes // 16:
            self._make_room()
            self._added_bytes = 0

    def _make_room(self) -> None:
        """Leave room for what is added until the next time."""
        entries = sorted(self._entries(), reverse=True)
        total = 0
        for _, size, file in entries:
            total += size
            if total > self._limit_bytes * 15 // 16:
                with suppress(OSError):
                    file.unlink()

    def _entries(self) -> Iterator[tuple[float, int, Path]]:
        with suppress(OSError):
            for file in self._directory.iterdir():
                with suppress(OSError):  # another process has removed it
                    found = file.stat()
                    yield found.st_mtime, found.st_size, file
