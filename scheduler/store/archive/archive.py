"""The archive: each run as one object, that is never overwritten and always read back."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterator
from dataclasses import field
from itertools import takewhile

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import ArchiveFailed, ObjectDamaged, ObjectMissing, RunFileInvalid
from sleipnir.scheduler.runs.whole import files
from sleipnir.scheduler.runs.whole.parts import WholeRun
from sleipnir.scheduler.runs.whole.secrets import SecretValues
from sleipnir.scheduler.store.archive.objects import Objects
from sleipnir.scheduler.store.archive.sealing import ArchiveKey
from sleipnir.scheduler.store.archive.summary import ObjectPlace

_DAY = re.compile(r"\d{4}/\d{2}/\d{2}")
_NAME = re.compile(r"([0-9a-f]{16})(?:-([1-9]\d{0,2}))?\.json\.gz")
# Each retry of a run that was archived, and each interrupted write, takes another name.
_MOST_NUMBERS = 1000


@dataclass(frozen=True, slots=True)
class Archived:
    """What the record of an archived run says of its object."""

    place: ObjectPlace
    secrets: SecretValues = field(default_factory=dict)  # for what it has masks


@dataclass(frozen=True, slots=True)
class ArchivedObject:
    """An object in the archive."""

    run_id: str
    day: str  # of the end of the run's root, as YYYY/MM/DD
    number: int


class Archive:
    """Runs in the directory or URL of the setting `archive`, sealed if there is a key."""

    def __init__(self, objects: Objects, key: ArchiveKey) -> None:
        self._objects = objects
        self._key = key
        self.url = objects.url

    def put(self, run: WholeRun, day: str) -> ObjectPlace:
        """Store a run, and read it back; one that is stored already is found again.

        It may be removed elsewhere once `sync` of the day has returned.

        Args:
            day: of the end of its root, as YYYY/MM/DD.

        Raises:
            ArchiveFailed: it cannot be stored, or what was read back is not what was written.
            RunFileInvalid: nobody would read an object of that size.
            SettingInvalid: the key cannot be used.
        """
        packed = files.compress(files.to_text(run))
        data = self._key.seal(packed, run.run_id)
        for number in range(1, _MOST_NUMBERS):
            name = name_of(run.run_id, day, number)
            is_new = self._objects.create(name, data)
            kept = self._objects.read(name)
            if kept == data or (not is_new and self._key.holds(kept, packed, run.run_id)):
                return ObjectPlace(day, number, len(kept), hashlib.sha256(kept).hexdigest())
            if is_new:
                raise ArchiveFailed(f"{self.url}/{name} is not what was written")
        raise ArchiveFailed(f"{self.url} has {_MOST_NUMBERS} other objects of run {run.run_id}")

    def sync(self, day: str) -> None:
        """Have all objects of a day survive a loss of power.

        Raises:
            ArchiveFailed: that fails.
        """
        self._objects.sync(f"runs/{day}")

    def fetch(self, run_id: str, place: ObjectPlace) -> bytes:
        """Return the object of a run.

        Raises:
            ObjectDamaged: it is not the one that was written.
            ArchiveFailed: it cannot be read.
        """
        name = name_of(run_id, place.day, place.number)
        data = self._objects.read(name, place.bytes)
        if hashlib.sha256(data).hexdigest() != place.sum:
            raise ObjectDamaged(f"{self.url}/{name} is damaged: its SHA-256 is another one")
        return data

    def url_of(self, run_id: str, place: ObjectPlace) -> str:
        """Return where the object of a run is; the URL may have a password."""
        return f"{self.url}/{name_of(run_id, place.day, place.number)}"

    def written_ms(self, run_id: str, place: ObjectPlace) -> int | None:
        """Return when the object of a run was written; raises as that of `Objects`."""
        return self._objects.written_ms(name_of(run_id, place.day, place.number))

    def open(self, run_id: str, data: bytes) -> WholeRun:
        """Return the run of an object.

        Raises:
            ObjectDamaged: it is not that run, or none.
            SettingInvalid: it is sealed with another key, or the key cannot be used.
        """
        try:
            run = files.from_file(self._key.open(data, run_id))
        except RunFileInvalid as error:
            raise ObjectDamaged(f"the object of run {run_id} is damaged: {error}") from error
        if run.run_id != run_id:
            raise ObjectDamaged(f"the object of run {run_id} has run {run.run_id}")
        return run

    def remove(self, run_id: str, day: str) -> None:
        """Remove all objects of a run, also those of earlier tries.

        Raises:
            ArchiveFailed: they cannot be removed.
        """
        for name in self._objects.names(f"runs/{day}"):
            if name.startswith(run_id):
                self._objects.remove(f"runs/{day}/{name}")

    def probe(self) -> None:
        """Write an object, read it back, and remove it.

        Raises:
            ArchiveFailed: that fails.
            SettingInvalid: the key cannot be used.
        """
        name = f"probes/{secrets.token_hex(8)}"
        data = self._key.seal(b"probe", name)
        self._objects.create(name, data)
        try:
            if self._key.open(self._objects.read(name), name) != b"probe":
                raise ArchiveFailed(f"{self.url}/{name} is not what was written")
        finally:
            self._objects.remove(name)

    def days(self) -> Iterator[str]:
        """Yield the days that have objects, as YYYY/MM/DD, the newest first.

        Raises:
            ArchiveFailed: they cannot be listed.
        """
        for year in reversed(self._objects.names("runs")):
            for month in reversed(self._objects.names(f"runs/{year}")):
                for day in reversed(self._objects.names(f"runs/{year}/{month}")):
                    if _DAY.fullmatch(found := f"{year}/{month}/{day}"):
                        yield found

    def objects(self, first: str = "") -> Iterator[ArchivedObject]:
        """Yield the objects of a day and later ones, the newest day first.

        Raises:
            ArchiveFailed: they cannot be listed.
        """
        for day in takewhile(lambda day: day >= first, self.days()):
            for name in self._objects.names(f"runs/{day}"):
                if found := _NAME.fullmatch(name):
                    yield ArchivedObject(found[1], day, int(found[2] or 1))

    def newest(self, run_id: str, day: str) -> WholeRun:
        """Return a run as it was archived last, also if Redis has forgotten where that is.

        Raises:
            ObjectMissing, ObjectDamaged: it is not there, or no object of it is sound.
            ArchiveFailed: it cannot be read.
        """
        names = [name for name in self._objects.names(f"runs/{day}") if name.startswith(run_id)]
        numbers = sorted(int(found[2] or 1) for found in map(_NAME.fullmatch, names) if found)
        problem: ArchiveFailed = ObjectMissing(f"{self.url} has no object of run {run_id}")
        for number in reversed(numbers):
            try:
                return self.open(run_id, self._objects.read(name_of(run_id, day, number)))
            except ObjectDamaged as error:  # perhaps the write of it was interrupted
                problem = error
        raise problem

    def remove_day(self, day: str) -> int:
        """Remove the objects of a day, and return how many there were.

        Raises:
            ArchiveFailed: one cannot be removed.
        """
        names = self._objects.names(f"runs/{day}")
        for name in names:
            self._objects.remove(f"runs/{day}/{name}")
        return len(names)


def name_of(run_id: str, day: str, number: int) -> str:
    """Return the name of a run's object."""
    return f"runs/{day}/{run_id}{f'-{number}' if number > 1 else ''}.json.gz"
