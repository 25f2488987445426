"""Files that lines attach to prompts: `--attach`. A line names each by its digest.

Workers need no shared disk: what a line names is stored with the batch when its run is submitted.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from sleipnir.graphs.attachments import NO_TYPE, PREFIXES, STORED, type_of
from sleipnir.graphs.document.finding import cut, printable
from sleipnir.graphs.files import MIB, UnusableFile, read_bytes, reason
from sleipnir.records import dataclass
from sleipnir.scheduler.batch.lines import Line, Malformed
from sleipnir.scheduler.errors import SubmissionRefused
from sleipnir.scheduler.store.batches import Batches
from sleipnir.scheduler.store.run_store import RunStore

FILES_SCHEMA = """
CREATE TABLE files (path TEXT PRIMARY KEY, digest TEXT NOT NULL);
CREATE TABLE digests (digest TEXT PRIMARY KEY, path TEXT NOT NULL, stored INTEGER NOT NULL);
"""
_SHOWN = 60  # characters of a path
_NAMED = re.compile(rf'"{STORED}([0-9a-f]{{64}})"')


class FilesOfLines:
    """The files that the lines of a ledger name, each content once; a part of its database."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._bytes = 0  # of all contents

    def digest_of(self, path: Path, limit_bytes: int) -> str:
        """Return the SHA-256 of a file, which is read once.

        Raises:
            OSError: it cannot be read, or is larger.
            Malformed: its content is neither an image nor a PDF.
        """
        known = self._db.execute("SELECT digest FROM files WHERE path = ?", (str(path),)).fetchone()
        if known is not None:
            return str(known[0])
        data = read_bytes(path, limit_bytes)
        if type_of(data) is None:
            raise Malformed(NO_TYPE)
        digest = hashlib.sha256(data).hexdigest()
        self._db.execute("INSERT INTO files VALUES (?, ?)", (str(path), digest))
        added = self._db.execute(
            "INSERT OR IGNORE INTO digests VALUES (?, ?, 0)", (digest, str(path))
        )
        self._bytes += len(data) * added.rowcount
        return digest

    def require_room(self, limit_bytes: int) -> None:
        """Check that the contents are not too large together.

        Raises:
            SubmissionRefused: they are.
        """
        if self._bytes > limit_bytes:
            raise _too_much(limit_bytes)

    def path_of(self, digest: str) -> Path | None:
        """Return a file with this content; None if no line names one."""
        row = self._db.execute("SELECT path FROM digests WHERE digest = ?", (digest,)).fetchone()
        return None if row is None else Path(row[0])

    def store(self, batches: Batches, batch: str, content: str, limit_bytes: int) -> None:
        """Store the files that a line, given as `Line.to_json`, names and that are not stored yet.

        Raises:
            SubmissionRefused: a file is no longer what it was, or they are too large together.
        """
        if not self._bytes:
            return
        for digest in dict.fromkeys(_NAMED.findall(content)):
            row = self._db.execute(
                "SELECT path FROM digests WHERE digest = ? AND NOT stored", (digest,)
            ).fetchone()
            if row is None:
                continue
            data = _unchanged(Path(row[0]), digest, limit_bytes)
            if not batches.add_file(batch, digest, data, limit_bytes):
                raise _too_much(limit_bytes)
            self._db.execute("UPDATE digests SET stored = 1 WHERE digest = ?", (digest,))


@dataclass(frozen=True, slots=True)
class Attach:
    """The columns with files, and where these are."""

    columns: Sequence[str]
    directory: Path  # that paths are relative to
    files: FilesOfLines
    file_limit_bytes: int
    batch_limit_bytes: int
    seen: set[str] = field(default_factory=set)  # columns that some line has

    def __call__(self, line: Line) -> Line:
        """Return a line with digests in the place of paths.

        Raises:
            Malformed: a file is missing, or cannot be sent.
            SubmissionRefused: all files together are too large.
        """
        state: dict[str, Any] = dict(line.state)
        for column in self.columns:
            if column in state:
                self.seen.add(column)
                state[column] = self._named(column, state[column])
        self.files.require_room(self.batch_limit_bytes)
        return replace(line, state=state)

    def unseen(self) -> list[str]:
        """Return the columns that no line has."""
        return [column for column in self.columns if column not in self.seen]

    def _named(self, column: str, value: Any) -> Any:
        if isinstance(value, list):
            return [self._digest(column, each) for each in value]
        return self._digest(column, value)

    def _digest(self, column: str, place: Any) -> str:
        if not isinstance(place, str):
            raise Malformed(f"'{printable(column)}' is to be a path or a list of paths (--attach)")
        if not place or place.lower().startswith(PREFIXES):
            return place
        try:
            path = self.directory / place
            return STORED + self.files.digest_of(path.absolute(), self.file_limit_bytes)
        except (Malformed, UnusableFile) as error:
            why = str(error)
        except (OSError, ValueError) as error:  # a NUL
            why = reason(error)
        raise Malformed(f"cannot attach '{cut(printable(place), _SHOWN)}': {why}")


def store_files(store: RunStore, batch: str, files: FilesOfLines | None, content: str) -> None:
    """Store what a line names, as `FilesOfLines.store`, within the engine's limit."""
    if files is not None:
        files.store(store.batches, batch, content, store.settings.attach_batch_limit_bytes)


def _unchanged(path: Path, digest: str, limit_bytes: int) -> bytes:
    try:
        data = read_bytes(path, limit_bytes)
    except OSError as error:
        raise SubmissionRefused(f"cannot attach {printable(str(path))}: {reason(error)}") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise SubmissionRefused(
            f"{printable(str(path))} has changed since the input was read; run the command again"
        )
    return data


def _too_much(limit_bytes: int) -> SubmissionRefused:
    return SubmissionRefused(
        f"the files of the lines are more than {limit_bytes / MIB:g} MiB together "
        "(attach_batch_limit_bytes); raise it, or split the input"
    )
