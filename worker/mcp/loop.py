"""The event loop of a worker process, on a thread of its own and used from all others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from sleipnir.worker.visit.cancellation import Cancellation

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for threads that wait for them; its own thread starts with the first."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def started(self) -> bool:
        return self._loop is not None

    def run(self, coroutine: Coroutine[Any, Any, T], cancellation: Cancellation | None = None) -> T:
        """Run a coroutine, and return or raise what it does.

        Raises:
            concurrent.futures.CancelledError: the cancellation was set first; the coroutine is then
                cancelled too.
        """
        future = asyncio.run_coroutine_threadsafe(coroutine, self._running())

        def abandon() -> None:
            future.cancel()

        with (cancellation or Cancellation()).calling(abandon):
            return future.result()

    def stop(self) -> None:
        """Stop the thread; coroutines that still run in it are abandoned."""
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name=self._name, daemon=True
                )
                self._thread.start()
            return self._loop
