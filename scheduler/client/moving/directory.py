"""The directory that finished runs are exported to: its files, written and read with bounds.

    export.json                  what it is, and its version
    runs/YYYY/MM/DD/RUN.json.gz  a run or child run, by the day of its creation (UTC)
    agents/DIGEST                a packed agent
    batches/DIGEST.json          the record of a batch, by the SHA-256 of its name
    attached/DIGEST              a file that lines of batches attach to prompts

Each file is replaced as a whole, so an export may be repeated into the same directory. What is read
may be anybody's: it is checked before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from sleipnir.graphs.files import read_bytes
from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.errors import RunFileInvalid
from sleipnir.scheduler.runs.whole import files
from sleipnir.scheduler.runs.whole.parts import WholeRun

FORMAT: Final = "sleipnir-export"
VERSION: Final = 1
_MANIFEST, _AGENTS, _BATCHES, _ATTACHED = "export.json", "agents", "batches", "attached"
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_COUNT = re.compile(r"[0-9]{1,18}")
_MOST_BYTES_OF_RECORD = 2**20


@dataclass(frozen=True, slots=True)
class BatchFile:
    """What is stored of a batch besides its runs."""

    batch: str
    record: Mapping[str, str]
    attached: tuple[str, ...]  # digests of the files that its lines attach


class ExportDirectory:
    """Files below one directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self) -> None:
        """Make it a directory of exported runs.

        Raises:
            RunFileInvalid: it has other files, or is of a later version.
            OSError: it cannot be made.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(self.path.iterdir()):
            self.require()
        else:
            self._write(_MANIFEST, encode({"format": FORMAT, "version": VERSION}).encode())

    def require(self) -> None:
        """Check that it is a directory of exported runs that this version can read.

        Raises:
            RunFileInvalid: it is not.
        """
        manifest = self._document(_MANIFEST)
        if manifest.get("format") != FORMAT:
            raise RunFileInvalid(
                f'its "format" is not "{FORMAT}": `sleipnir export` did not make it'
            )
        version = manifest.get("version")
        if not isinstance(version, int) or version > VERSION:
            raise RunFileInvalid("a later version of Sleipnir has made it: upgrade this one")

    def write_run(self, run: WholeRun) -> bool:
        """Write a run; return False if it is there as it is.

        Raises:
            RunFileInvalid: the run is larger than what is read.
            OSError: it cannot be written.
        """
        text, place = files.to_text(run), files.path_of(run)
        if files.holds(self.path / place, text):
            return False
        self._write(place, files.compress(text))
        return True

    def has_agent(self, digest: str) -> bool:
        return (self.path / _AGENTS / digest).exists()

    def write_agent(self, digest: str, data: bytes) -> None:
        """Write a packed agent."""
        self._write(f"{_AGENTS}/{digest}", data)

    def has_attached(self, digest: str) -> bool:
        return (self.path / _ATTACHED / digest).exists()

    def write_attached(self, digest: str, data: bytes) -> None:
        """Write a file that lines of a batch attach."""
        self._write(f"{_ATTACHED}/{digest}", data)

    def write_batch(self, batch: BatchFile) -> None:
        """Write what is stored of a batch."""
        document = {
            "batch": batch.batch,
            "record": dict(batch.record),
            "attached": list(batch.attached),
        }
        name = hashlib.sha256(batch.batch.encode(errors="surrogatepass")).hexdigest()
        self._write(f"{_BATCHES}/{name}.json", encode(document).encode())

    def run_files(self) -> Iterator[str]:
        """Yield the paths of all files of runs below the directory, those of a day together."""
        yield from self._below(files.DIRECTORY, depth=3)

    def batch_files(self) -> Iterator[str]:
        """Yield the paths of all files of batches."""
        yield from self._below(_BATCHES, depth=0)

    def read_run(self, place: str) -> WholeRun:
        """Return the run of a file.

        Raises:
            RunFileInvalid: it is not the one that its name says.
        """
        run = files.from_file(self._read(place, files.MOST_BYTES))
        if files.path_of(run) != place:
            raise RunFileInvalid(f"it is run {run.run_id}, which has another place")
        return run

    def read_batch(self, place: str) -> BatchFile:
        """Return what a file says of a batch.

        Raises:
            RunFileInvalid: it is not one of a batch.
        """
        document = self._document(place)
        batch, record = document.get("batch"), document.get("record")
        attached = document.get("attached")
        if not isinstance(batch, str) or not isinstance(record, dict):
            raise RunFileInvalid("it is not the record of a batch")
        if not all(_is_of_record(name, value) for name, value in record.items()):
            raise RunFileInvalid('its "record" has what no record of a batch has')
        if not isinstance(attached, list) or not all(map(_is_digest, attached)):
            raise RunFileInvalid('its "attached" are not SHA-256 sums')
        return BatchFile(batch, record, tuple(attached))

    def read_agent(self, digest: str, limit_bytes: int) -> bytes:
        """Return a packed agent.

        Raises:
            RunFileInvalid: it is not there, or not the one that its name says.
        """
        return self._named(_AGENTS, digest, limit_bytes)

    def read_attached(self, digest: str, limit_bytes: int) -> bytes:
        """Return a file that lines of a batch attach.

        Raises:
            RunFileInvalid: it is not there, or not the one that its name says.
        """
        return self._named(_ATTACHED, digest, limit_bytes)

    def _named(self, directory: str, digest: str, limit_bytes: int) -> bytes:
        if not _is_digest(digest):
            raise RunFileInvalid("the name of its agent is not a SHA-256 sum")
        data = self._read(f"{directory}/{digest}", limit_bytes)
        if hashlib.sha256(data).hexdigest() != digest:
            raise RunFileInvalid(f"{directory}/{digest} has another SHA-256 than its name says")
        return data

    def _document(self, place: str) -> dict[str, Any]:
        try:
            document = json.loads(self._read(place, _MOST_BYTES_OF_RECORD))
        except (ValueError, RecursionError) as error:
            raise RunFileInvalid(f"{place} is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise RunFileInvalid(f"{place} is not a JSON object")
        return document

    def _below(self, place: str, depth: int) -> Iterator[str]:
        try:
            with os.scandir(self.path / place) as found:
                entries = sorted(
                    (entry.name, entry.is_dir(follow_symlinks=False)) for entry in found
                )
        except FileNotFoundError:
            return
        for name, is_directory in entries:
            if is_directory and depth:
                yield from self._below(f"{place}/{name}", depth - 1)
            elif not name.endswith(_UNFINISHED):
                yield f"{place}/{name}"

    def _read(self, place: str, limit_bytes: int) -> bytes:
        try:
            return read_bytes(self.path / place, limit_bytes)
        except OSError as error:
            raise RunFileInvalid(f"cannot read {place}: {error.strerror}") from error

    def _write(self, place: str, data: bytes) -> None:
        file = self.path / place
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = file.with_name(f"{file.name}{_UNFINISHED}")
        unfinished.write_bytes(data)
        unfinished.replace(file)


_UNFINISHED = ".unfinished"


def _is_of_record(name: str, value: object) -> bool:
    """Return whether a field is one of a batch: its agent, or a count."""
    if name == "agent":
        return isinstance(value, str)
    is_count = name == "lines" or name.startswith("removed ")
    return is_count and isinstance(value, str) and _COUNT.fullmatch(value) is not None


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and DIGEST.fullmatch(value) is not None
