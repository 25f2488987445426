"""When something that a process depends on has answered it last."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

from sleipnir.scheduler.process.health.figures import Figures


class Pulse:
    """Times regular calls of Redis, and counts those that fail."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures
        self._answered_at = monotonic()

    def age_s(self) -> float:
        """Return for how long Redis has not answered."""
        return monotonic() - self._answered_at

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Time a call; its exceptions are counted and raised."""
        began_at = monotonic()
        try:
            yield
        except Exception as error:
            self._figures.count_error(type(error).__name__)
            raise
        self._answered_at = monotonic()
        self._figures.count_answer(self._answered_at - began_at)
