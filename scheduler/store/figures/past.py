"""Sums of hours and days that were read before, so that charts do not read and parse them again."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from sleipnir.scheduler.store.figures.sums import Sums

# The field that counts how often something was added to stored sums.
FOLDS = "folds"
# The most sums that are kept, of all hours and days together: some 15 MB.
_MOST = 50_000


class PastSums:
    """The sums under some keys, by names, each valid as long as nothing was added; thread-safe."""

    class Found(NamedTuple):
        """What was read."""

        folds: str | None  # None: nothing was ever added up there
        sums: Sums

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, str], PastSums.Found] = OrderedDict()
        self._count = 0
        self._lock = Lock()

    def find(self, key: str, names: str) -> Found | None:
        """Return what was read of a key by these names; it is not to be changed."""
        with self._lock:
            found = self._kept.get((key, names))
            if found is not None:
                self._kept.move_to_end((key, names))
            return found

    def forget(self, key: str, names: str) -> None:
        """Forget what was read, as something was added since."""
        with self._lock:
            self._remove((key, names))

    def keep(self, key: str, names: str, found: Found) -> None:
        """Keep what was read, and in turn forget what was not asked for longest."""
        with self._lock:
            self._remove((key, names))
            self._kept[key, names] = found
            self._count += len(found.sums) + 1
            while self._count > self._most:
                self._remove(next(iter(self._kept)))

    def _remove(self, place: tuple[str, str]) -> None:
        if (found := self._kept.pop(place, None)) is not None:
            self._count -= len(found.sums) + 1
