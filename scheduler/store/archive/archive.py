"""The archive: each run as one object, that is never overwritten and always read back."""

from __future__ import annotations

import hashlib
import zlib
from typing import Final

from sleipnir.records import dataclass
from sleipnir.scheduler.errors import ArchiveFailed, ObjectDamaged
from sleipnir.scheduler.runs.whole.document import from_json, to_json
from sleipnir.scheduler.runs.whole.parts import WholeRun
from sleipnir.scheduler.store.archive.objects import Objects
from sleipnir.scheduler.store.archive.summary import ObjectPlace

# What unpacks to more was not written by Sleipnir: the parts of a run have limits.
MOST_UNPACKED_BYTES: Final = 1024 * 1024 * 1024

_GZIP = 31  # zlib's name for it
_LEVEL = 1
# Each retry of a run that was archived, and each interrupted write, takes another name.
_MOST_NUMBERS = 1000


@dataclass(frozen=True, slots=True)
class Archived:
    """An object as the record of its run names it."""

    place: ObjectPlace
    sum: str  # its SHA-256


class Archive:
    """Runs in the directory or URL of the setting `archive`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.url = objects.url

    def put(self, run: WholeRun, day: str) -> Archived:
        """Store a run, and read it back; one that is stored already is found again.

        Args:
            day: of the end of its root, as YYYY/MM/DD.

        Raises:
            ArchiveFailed: it cannot be stored, or what was read back is not what was written.
        """
        text = to_json(run)
        data = _packed(text)
        for number in range(1, _MOST_NUMBERS):
            place = ObjectPlace(day, number, len(data))
            name = name_of(run.run_id, place)
            is_new = self._objects.create(name, data)
            kept = self._objects.read(name)
            if kept == data:
                return Archived(place, hashlib.sha256(kept).hexdigest())
            if is_new:
                raise ArchiveFailed(f"{self.url}/{name} is not what was written")
        raise ArchiveFailed(f"{self.url} has {_MOST_NUMBERS} other objects of run {run.run_id}")

    def fetch(self, run_id: str, archived: Archived) -> bytes:
        """Return the object of a run.

        Raises:
            ObjectDamaged: it is not the one that was written.
            ArchiveFailed: it cannot be read.
        """
        name = name_of(run_id, archived.place)
        data = self._objects.read(name, archived.place.bytes)
        if hashlib.sha256(data).hexdigest() != archived.sum:
            raise ObjectDamaged(f"{self.url}/{name} is damaged: its SHA-256 is another one")
        return data

    def remove(self, run_id: str, place: ObjectPlace) -> None:
        """Remove the object of a run.

        Raises:
            ArchiveFailed: it cannot be removed.
        """
        self._objects.remove(name_of(run_id, place))


def name_of(run_id: str, place: ObjectPlace) -> str:
    """Return the name of a run's object."""
    number = f"-{place.number}" if place.number > 1 else ""
    return f"runs/{place.day}/{run_id}{number}.json.gz"


def run_in(data: bytes) -> WholeRun:
    """Return the run of an object.

    Raises:
        RunFileInvalid: it is none.
        ObjectDamaged: it cannot be unpacked.
    """
    unpacking = zlib.decompressobj(_GZIP)
    try:
        text = unpacking.decompress(data, MOST_UNPACKED_BYTES)
    except zlib.error as error:
        raise ObjectDamaged(f"it cannot be unpacked: {error}") from error
    if not unpacking.eof:
        raise ObjectDamaged(f"it is cut off, or unpacks to more than {MOST_UNPACKED_BYTES:,} bytes")
    return from_json(text.decode(errors="surrogatepass"))


def _packed(text: str) -> bytes:
    """Return a document as it is stored; the same bytes for the same text."""
    packing = zlib.compressobj(_LEVEL, wbits=_GZIP)
    return packing.compress(text.encode(errors="surrogatepass")) + packing.flush()
