"""Tells an executing visit that its result has become void."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Cancellation(threading.Event):
    """An event that also runs callbacks when it is set, once, on the setter's thread."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def set(self) -> None:
        with self._lock:
            first = not self.is_set()
            super().set()
            callbacks = list(self._callbacks) if first else []
        for callback in callbacks:
            callback()

    @contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Run `callback` if the event is set before the block ends; at once if already set."""
        with self._lock:
            already = self.is_set()
            self._callbacks.append(callback)
        try:
            if already:
                callback()
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)
