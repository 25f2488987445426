"""Keeps the last try of a visit apart from others that have lost workers.

A node that kills its worker takes what runs beside it along, and all of it is tried again at
the same time. Its company would be found with it to the end, and fail for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock


class Suspects:
    """The visits of one process that lost workers before, while they execute."""

    def __init__(self, max_deliveries: int) -> None:
        self._max_deliveries = max_deliveries
        self._lock = Lock()
        self._count = 0
        self._last_try = False  # one is at it, and alone

    @contextmanager
    def admitting(self, tries: int) -> Iterator[bool]:
        """Whether a visit may execute now, at this try; it does until the block ends."""
        if tries <= 1:
            yield True
            return
        last = tries >= self._max_deliveries
        with self._lock:
            admitted = not self._last_try and not (last and self._count)
            if admitted:
                self._count += 1
                self._last_try = last
        try:
            yield admitted
        finally:
            if admitted:
                with self._lock:
                    self._count -= 1
                    self._last_try = False
