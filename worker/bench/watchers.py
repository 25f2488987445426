"""Clients that watch a page of the monitor: what events they get, when, and what that costs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import perf_counter

from sleipnir.records import dataclass
from sleipnir.scheduler.process.periodic import pause

# One client may ask for 50 pages a second.
_PACE_S = 0.025
_OPEN_S = 60.0


@dataclass(frozen=True, slots=True)
class Told:
    """An event that one of them got, and when."""

    event: str
    at: float  # by `perf_counter`


class Watchers:
    """Streams of one topic, read by a thread."""

    def __init__(self, port: int, key: str, topics: str) -> None:
        self._head = (
            f"GET /api/v1/stream?topics={topics} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            f"Authorization: Bearer {key}\r\n\r\n"
        ).encode()
        self._port = port
        self.told: list[Told] = []
        self._opened = 0
        self._ready = threading.Event()

    @contextmanager
    def watching(self, count: int) -> Iterator[None]:
        """Open that many streams; each has received the current state when the block begins.

        Raises:
            RuntimeError: they cannot be opened.
        """
        thread = threading.Thread(target=asyncio.run, args=(self._watch(count),))
        thread.start()
        try:
            if not self._ready.wait(_OPEN_S):
                raise RuntimeError(f"only {self._opened} of {count} streams tell anything")
            self.told.clear()
            yield
        finally:
            self._loop.call_soon_threadsafe(self._ended.set)
            thread.join()

    def await_all(self, event: str, count: int) -> None:
        """Wait until that many streams have received an event.

        Raises:
            RuntimeError: they did not in time.
        """
        ends_at = perf_counter() + _OPEN_S
        while sum(each.event == event for each in list(self.told)) < count:
            if perf_counter() > ends_at:
                raise RuntimeError(f"{event}: told to fewer than {count}")
            pause(_PACE_S)

    async def _watch(self, count: int) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        tasks = []
        for _ in range(count):
            tasks.append(asyncio.create_task(self._read(count)))
            await asyncio.sleep(_PACE_S)
        await self._ended.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**22)
        writer.write(self._head)
        with suppress(asyncio.CancelledError):
            told_before = False
            async for text in reader:
                if text.startswith(b"event: "):
                    self.told.append(Told(text[7:].decode().strip(), perf_counter()))
                    if not told_before:
                        told_before = True
                        self._opened += 1
                        if self._opened == count:
                            self._ready.set()
        writer.close()
