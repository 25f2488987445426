"""Runs that were archived, read again: from memory, this machine's disk, or the archive."""

from __future__ import annotations

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any

from sleipnir.scheduler.errors import ArchiveFailed
from sleipnir.scheduler.runs.whole.parts import WholeRun
from sleipnir.scheduler.runs.whole.secrets import with_secrets
from sleipnir.scheduler.store.archive.archive import Archive, Archived
from sleipnir.scheduler.store.archive.cache import ObjectCache
from sleipnir.scheduler.store.archive.summary import ObjectPlace
from sleipnir.scheduler.store.keys import run_key

_THREADS = 16  # a store may take a tenth of a second for each
# A page reads the parts of a run one by one, and perhaps those of its children.
_IN_MEMORY_BYTES = 4 * 1024 * 1024  # packed; about ten times that unpacked


class ArchivedRuns:
    """Reads what an archive has of runs whose records are in a Redis; safe for threads."""

    def __init__(self, client: Any, archive: Archive, cache: ObjectCache) -> None:
        self._redis = client
        self._archive = archive
        self._cache = cache
        self._recent: OrderedDict[str, tuple[WholeRun, int]] = OrderedDict()
        self._lock = Lock()

    def wholes(self, run_ids: Sequence[str]) -> Mapping[str, WholeRun]:
        """Return those of several runs that are archived.

        Raises:
            ArchiveFailed: one cannot be read.
        """
        places = self.places(run_ids)
        if len(places) < 2:
            return {run_id: self.whole(run_id, at) for run_id, at in places.items()}
        with ThreadPoolExecutor(min(_THREADS, len(places))) as threads:
            wholes = threads.map(self.whole, places.keys(), places.values())
            return dict(zip(places, wholes, strict=True))

    def places(self, run_ids: Sequence[str]) -> dict[str, Archived]:
        """Return where those of several runs are that are archived."""
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hmget(run_key("run", run_id), "archived", "secrets")
            found = zip(run_ids, pipe.execute(), strict=True)
        return {
            run_id: Archived(ObjectPlace.parse(place), json.loads(secrets or "{}"))
            for run_id, (place, secrets) in found
            if place
        }

    def whole(self, run_id: str, archived: Archived) -> WholeRun:
        """Return an archived run.

        Raises:
            ArchiveFailed: it cannot be read.
        """
        place = archived.place
        with self._lock:
            if known := self._recent.get(place.sum):
                self._recent.move_to_end(place.sum)
                return with_secrets(known[0], archived.secrets)
        try:
            run, size = self._read(run_id, place)
        except ArchiveFailed as error:
            raise type(error)(f"run {run_id} is archived and cannot be read: {error}") from error
        self._remember(place.sum, run, size)
        return with_secrets(run, archived.secrets)

    def _read(self, run_id: str, place: ObjectPlace) -> tuple[WholeRun, int]:
        """Return a run and the size of its object."""
        data = self._cache.get(place.sum)
        if data is None or hashlib.sha256(data).hexdigest() != place.sum:
            data = self._archive.fetch(run_id, place)
            self._cache.put(place.sum, data)
        return self._archive.open(run_id, data), len(data)

    def _remember(self, digest: str, run: WholeRun, size: int) -> None:
        with self._lock:
            self._recent[digest] = run, size
            while len(self._recent) > 1 and self._bytes() > _IN_MEMORY_BYTES:
                self._recent.popitem(last=False)

    def _bytes(self) -> int:
        return sum(size for _, size in self._recent.values())
