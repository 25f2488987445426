"""The log of runs that an embedded engine has accepted, kept beside its data to detect lost runs.

The file `accepted` has a line for each run: its id, and the instant (ms) at which its retention
time starts. A run that is listed, cannot have expired yet, and is not in Redis was lost.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports
from sleipnir.records import dataclass
from sleipnir.scheduler.embedded.place import Place
from sleipnir.scheduler.errors import NotKept, RunLost

# Most commands submit no run.
with lazy_imports():
    from sleipnir.scheduler.embedded import append_only, redis_server

if TYPE_CHECKING:
    from sleipnir.scheduler.embedded.redis_server import PrivateRedis

# PTTL of a key without expiry; it is -2 for a missing key.
_FOR_EVER = -1


@dataclass(frozen=True, slots=True)
class Acceptances:
    """The runs accepted by the engine of one data directory."""

    data_dir: Path
    server: PrivateRedis
    retention_ms: int

    def keep(self, run_ids: Sequence[str], clock: Callable[[], int]) -> int:
        """Sync these runs to disk and list them; return the instant recorded for them, ms.

        Args:
            clock: Redis' clock in ms; not called if Redis cannot write.

        Raises:
            NotKept: they cannot be written to disk.
        """
        try:
            append_only.sync(self.server)
            now_ms = clock()
            with self._locked() as file:
                _append(file, "".join(f"{run_id} {now_ms}\n" for run_id in run_ids))
        except OSError as error:
            raise NotKept(f"cannot write {self._file}: {error.strerror}") from error
        return now_ms

    def lost(self, prefix: str, now_ms: int) -> RunLost | None:
        """Return the error for a lost run whose id begins with `prefix`, or None."""
        if not prefix:  # names no run
            return None
        for run_id, noted_ms in self._noted():
            if run_id.startswith(prefix) and now_ms < noted_ms + self.retention_ms:
                return RunLost(run_id, self._cause(noted_ms))
        return None

    def _cause(self, noted_ms: int) -> str:
        loss = Place(self.data_dir).loss_note
        with contextlib.suppress(FileNotFoundError):
            if loss.stat().st_mtime * 1000 > noted_ms:
                why = loss.read_text().strip()
                return (
                    f"the engine was stopped before its data was written ({why}); submit it again"
                )
        return (
            f"the data of Redis in {self.server.directory} was deleted or replaced "
            "since; restore a backup, or submit the run again"
        )

    def tidy(self, left_ms: Callable[[Sequence[str]], Sequence[int]], now_ms: int) -> None:
        """Drop runs whose retention time is over; cheap while there are none.

        Args:
            left_ms: returns for how long Redis still keeps runs, as PTTL does.
        """
        first = next(self._noted(), None)
        if first is None or now_ms < first[1] + self.retention_ms:
            return
        with self._locked():
            noted = list(self._noted())
            old = [run_id for run_id, at in noted if now_ms >= at + self.retention_ms]
            kept = [(run_id, at) for run_id, at in noted if now_ms < at + self.retention_ms]
            # Their retention time starts at their end, so it may not have started, or only later.
            for run_id, left in zip(old, left_ms(old), strict=True):
                if left == _FOR_EVER:
                    kept.append((run_id, now_ms))
                elif left > 0:
                    kept.append((run_id, now_ms + left - self.retention_ms))
            self._replace("".join(f"{run_id} {at}\n" for run_id, at in sorted(kept, key=_instant)))

    def forget(self, run_ids: Sequence[str]) -> None:
        """Drop runs that were removed on purpose."""
        gone = set(run_ids)
        with self._locked():
            noted = list(self._noted())
            self._replace("".join(f"{run_id} {at}\n" for run_id, at in noted if run_id not in gone))

    @classmethod
    def of(cls, data_dir: Path, redis_url: str, retention_s: float) -> Acceptances:
        """Return the log of the data directory's engine, whose Redis is at this URL."""
        server = redis_server.PrivateRedis.at(Place(data_dir).redis_directory, redis_url)
        return cls(data_dir, server, int(retention_s * 1000))

    @classmethod
    def of_engine(cls, data_dir: Path, redis_url: str, retention_s: float) -> Acceptances | None:
        """Return the log if that Redis belongs to the data directory's own engine, else None."""
        if not redis_url.startswith("unix:") or not data_dir.is_dir():
            return None
        found = cls.of(data_dir.resolve(), redis_url, retention_s)
        own = redis_server.socket_directory(data_dir)
        return found if found.server.socket_file.parent == own else None

    @property
    def _file(self) -> Path:
        return self.data_dir / "accepted"

    def _noted(self) -> Iterator[tuple[str, int]]:
        with contextlib.suppress(FileNotFoundError), self._file.open(encoding="ascii") as lines:
            for line in lines:
                run_id, _, noted_ms = line.partition(" ")
                # The last line may be incomplete: another command is writing it, or was killed
                # then.
                if noted_ms.endswith("\n") and noted_ms[:-1].isdigit():
                    yield run_id, int(noted_ms)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[Path]:
        """Hold the lock on the file, exclusively among all commands."""
        descriptor = os.open(self.data_dir / "accepted.lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield self._file
        finally:
            os.close(descriptor)

    def _replace(self, text: str) -> None:
        other = self._file.with_suffix(".new")
        other.unlink(missing_ok=True)
        _append(other, text)
        other.replace(self._file)
        append_only.sync_path(self.data_dir)


def _append(file: Path, text: str) -> None:
    """Append to a file and sync it, or leave it unchanged."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        try:
            _write_all(descriptor, text.encode())
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _instant(noted: tuple[str, int]) -> int:
    return noted[1]
