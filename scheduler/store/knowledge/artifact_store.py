"""Packed indexes outside of Redis: in a directory, or anywhere fsspec can write.

Each index is two files: the archive, and a record, written after it, by which it is found. The
record says until when the index is kept; a use renews it from time to time.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from sleipnir.scheduler.errors import ArtifactStoreFailed
from sleipnir.scheduler.process.shared_files import SharedFiles
from sleipnir.scheduler.store.knowledge.packed import PackedIndex

_RECORD = ".json"
_RENEWALS = 4  # renewals per retention period
_BLOCK_BYTES = 1024 * 1024


def _now_s() -> float:
    return datetime.now(UTC).timestamp()


class OutsideIndexes(SharedFiles):
    """Indexes shared by all engines that are configured with the same place.

    Args:
        url: an fsspec URL or path of the directory.
    """

    _SETTING = "artifact_store"
    _FAILED = ArtifactStoreFailed

    def __init__(self, url: str, retention_s: float, now_s: Callable[[], float] = _now_s) -> None:
        super().__init__(url)
        self._retention_s = retention_s
        self._now_s = now_s

    def put(self, address: str, packed: PackedIndex) -> None:
        """Store an index, and remove those not used for the retention time.

        Raises:
            ArtifactStoreFailed: it cannot be stored.
        """
        with self._translating_errors():
            self._files.makedirs(self._root, exist_ok=True)
            packed.content.seek(0)
            self._write(address, packed.content)
            record = {"digest": packed.digest, "info": dict(packed.info)}
            self._write_record(address, record, self._now_s() + self._retention_s)
        with suppress(ArtifactStoreFailed):  # the next `put` tries again
            self._remove_unused()

    def record(self, address: str, keep_s: float = 0.0) -> Mapping[str, Any] | None:
        """Return the record of an index, or None, and extend its retention.

        Args:
            keep_s: keep it at least this long, if longer than the retention time.
        """
        keep_s = max(keep_s, self._retention_s)
        with self._translating_errors():
            record = self._read_record(address)
            if record is None or not self._files.exists(self._path(address)):
                return None
            if record["until"] < self._now_s() + keep_s * (1 - 1 / _RENEWALS):
                self._write_record(address, record, self._now_s() + keep_s)
        return record

    def let_go(self, address: str) -> None:
        """Set the index to expire after one retention time."""
        with self._translating_errors():
            record = self._read_record(address)
            if record is not None:
                self._write_record(address, record, self._now_s() + self._retention_s)

    def fetch(self, address: str, into: IO[bytes]) -> str | None:
        """Write an index to an empty file; return its hash, or None if it is not there.

        Raises:
            ArtifactStoreFailed: it cannot be read.
            OSError: the file cannot be written.
        """
        record = self.record(address)
        if record is None:
            return None
        with ExitStack() as opened:
            with self._translating_errors():
                try:
                    content = opened.enter_context(self._files.open(self._path(address), "rb"))
                except FileNotFoundError:
                    return None
            while True:
                with self._translating_errors():
                    block: bytes = content.read(_BLOCK_BYTES)
                if not block:
                    return str(record["digest"])
                into.write(block)

    def _remove_unused(self) -> None:
        with self._translating_errors():
            names = [Path(path).name for path in self._files.ls(self._root, detail=False)]
        for name in names:
            if not name.endswith(_RECORD):
                continue
            address = name.removesuffix(_RECORD)
            with self._translating_errors():
                record = self._read_record(address)
                if record is not None and record["until"] < self._now_s():
                    self._remove(address)

    def _remove(self, address: str) -> None:
        for path in (self._path(address + _RECORD), self._path(address)):
            with suppress(FileNotFoundError):
                self._files.rm_file(path)

    def _read_record(self, address: str) -> dict[str, Any] | None:
        try:
            record = json.loads(self._files.cat_file(self._path(address + _RECORD)))
            return {name: record[name] for name in ("digest", "info", "until")}
        except (FileNotFoundError, ValueError, KeyError, TypeError):  # none that is of use
            return None

    def _write_record(self, address: str, record: Mapping[str, Any], until_s: float) -> None:
        text = json.dumps({**record, "until": until_s})
        self._write(address + _RECORD, BytesIO(text.encode()))

    def _write(self, name: str, content: IO[bytes]) -> None:
        """Write a file atomically: it appears under its name whole or not at all."""
        scratch = self._path(f".{name}.{secrets.token_hex(4)}")
        with self._files.open(scratch, "wb") as file:
            shutil.copyfileobj(content, file, _BLOCK_BYTES)
        self._files.mv(scratch, self._path(name))
