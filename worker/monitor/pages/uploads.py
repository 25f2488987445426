"""Files that people have sent to look at, until they start a batch of them."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sleipnir.records import dataclass

_MOST_FILES: Final = 100
_MOST_BYTES: Final = 64 * 1024 * 1024
_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file, and who may use it."""

    reader: str
    name: str
    content: bytes


class Uploads:
    """The newest of these files, in memory; and the thread that submits their lines."""

    def __init__(self) -> None:
        self._files: OrderedDict[str, SentFile] = OrderedDict()
        self._bytes = 0
        self.thread = ThreadPoolExecutor(1, "batches")

    def keep(self, file: SentFile) -> str:
        """Keep a file, for which the oldest ones may go; return its id."""
        file_id = secrets.token_urlsafe(_ID_BYTES)
        self._files[file_id] = file
        self._bytes += len(file.content)
        while len(self._files) > _MOST_FILES or self._bytes > _MOST_BYTES:
            _, oldest = self._files.popitem(last=False)
            self._bytes -= len(oldest.content)
        return file_id

    def find(self, file_id: str, reader: str) -> SentFile | None:
        """Return a file that this reader has sent, unless it is gone."""
        file = self._files.get(file_id)
        return file if file is not None and file.reader == reader else None

    def close(self) -> None:
        """Submit nothing further."""
        self.thread.shutdown(wait=False, cancel_futures=True)
