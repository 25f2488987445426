"""Archives runs with all that they have started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import (
    ArchiveFailed,
    ForgedValue,
    RunFileInvalid,
    SettingInvalid,
    SleipnirError,
)
from sleipnir.scheduler.runs.whole.secrets import without_secrets
from sleipnir.scheduler.store.run_store import RunStore

if TYPE_CHECKING:
    from multiprocessing.pool import ThreadPool

    from sleipnir.scheduler.store.archive.archive import Archive
    from sleipnir.scheduler.store.archive.reading import ReadRun
    from sleipnir.scheduler.store.archive.summary import ObjectPlace

_MOST_BYTES: Final = 32 * 1024 * 1024  # as Redis has them, of runs in memory at once
_AT_ONCE: Final = 64


@dataclass(slots=True)
class Round:
    """What came of a round."""

    archived: int = 0
    stored_bytes: int = 0
    failed: int = 0
    reason: str = ""  # of the last failure


class Trees:
    """Children are archived before their parent: as long as that is due, so are they."""

    def __init__(self, store: RunStore, archive: Archive, threads: ThreadPool, done: Round) -> None:
        self._runs = store.whole_runs
        self._archive = archive
        self._threads = threads
        self._done = done

    def store(self, run_ids: Sequence[str], day: str = "") -> set[str]:
        """Archive runs that have ended, and return those that are still to be archived.

        Args:
            day: of the end of their root; "": they are roots.
        """
        left: set[str] = set()
        for portion in self._portions(run_ids):
            reads = self._read(portion)
            left.update(set(portion) - {read.whole.run_id for read in reads})
            for read in reads:
                children = [*map(str, read.whole.parts.get("children", ()))]
                if children and self.store(children, day or _day_of(read)):
                    left.add(read.whole.run_id)
            left |= self._put([read for read in reads if read.whole.run_id not in left], day)
        return left

    def _portions(self, run_ids: Sequence[str]) -> Iterator[list[str]]:
        """Yield those that can be archived, as many at once as may be in memory."""
        for first in range(0, len(run_ids), _AT_ONCE):
            portion: list[str] = []
            total = 0
            for run_id, size in self._runs.sizes(run_ids[first : first + _AT_ONCE]).items():
                if portion and total + size > _MOST_BYTES:
                    yield portion
                    portion, total = [], 0
                portion.append(run_id)
                total += size
            if portion:
                yield portion

    def _read(self, run_ids: Sequence[str]) -> list[ReadRun]:
        try:
            return [read for read in self._runs.read(run_ids) if read is not None]
        except ForgedValue as error:
            if len(run_ids) == 1:
                self.note_failure(f"run {run_ids[0]}: {error}")
                return []
            return [read for run_id in run_ids for read in self._read([run_id])]

    def _put(self, reads: Sequence[ReadRun], day: str) -> set[str]:
        """Write objects, and then remove what Redis has of them; return the runs that failed."""
        stored: list[tuple[ReadRun, ObjectPlace]] = []
        written = self._threads.imap(lambda read: self._write(read, day), reads)
        for read, place in zip(reads, written, strict=True):
            if isinstance(place, Exception):
                self.note_failure(str(place))
            else:
                stored.append((read, place))
        if not self._sync([place for _, place in stored]):
            stored.clear()
        done = self._runs.archive(stored)
        self._done.archived += len(done)
        self._done.stored_bytes += sum(place.bytes for _, place in stored)
        return {read.whole.run_id for read in reads} - done

    def _write(self, read: ReadRun, day: str) -> ObjectPlace | SleipnirError:
        try:
            return self._archive.put(without_secrets(read.whole), day or _day_of(read))
        except (ArchiveFailed, RunFileInvalid, SettingInvalid) as error:
            return error

    def _sync(self, places: Sequence[ObjectPlace]) -> bool:
        try:
            for day in {place.day for place in places}:
                self._archive.sync(day)
        except ArchiveFailed as error:
            for _ in places:
                self.note_failure(str(error))
            return False
        return True

    def note_failure(self, reason: str) -> None:
        """Count a run that could not be archived."""
        self._done.failed += 1
        self._done.reason = reason


def _day_of(read: ReadRun) -> str:
    ended = int(read.whole.record["ended"]) / 1000
    return datetime.fromtimestamp(ended, UTC).strftime("%Y/%m/%d")
