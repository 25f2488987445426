"""Server-sent events about changes while a page is open."""

from __future__ import annotations

import asyncio

from tornado.iostream import StreamClosedError

from sleipnir.worker.monitor.handlers.base import MonitorHandler, bad_request
from sleipnir.worker.monitor.hub import CLOSED, MOST_TOPICS, Watcher

_PING_S = 15.0
# Interval, in ms, at which browsers reconnect.
_RETRY_MS = 3_000


class StreamHandler(MonitorHandler):
    """GET /api/v1/stream?topics=run:ID,runs,inbox"""

    is_timed = False  # lasts as long as its page is open
    watcher: Watcher | None = None

    async def get(self) -> None:
        topics = list(dict.fromkeys(filter(None, (self.text_argument("topics") or "").split(","))))
        if not 1 <= len(topics) <= MOST_TOPICS:
            raise bad_request(f"topics names 1 to {MOST_TOPICS} topics, with commas between")
        for topic in topics:
            self.site.topics.look_at(topic)
        self.watcher = self.site.hub.watch(topics, self.reader)
        self.set_header("Content-Type", "text/event-stream")
        self.set_header("X-Accel-Buffering", "no")
        # Compression takes 256 KiB per stream, and frames are short.
        self.set_header("Content-Encoding", "identity")
        try:
            await self._send(f"retry: {_RETRY_MS}\n\n")
            await self._serve(self.watcher)
        except StreamClosedError:
            pass
        finally:
            self._leave()

    async def _serve(self, watcher: Watcher) -> None:
        """Send frames until nothing will change any more, or the client has disconnected."""
        unfinished = len(watcher.topics)
        while unfinished:
            try:
                event, data = await asyncio.wait_for(watcher.frames.get(), _PING_S)
            except TimeoutError:
                await self._send(": ping\n\n")
                continue
            if (event, data) == CLOSED:
                return
            await self._send(f"event: {event}\ndata: {data}\n\n")
            unfinished -= event == "final"

    async def _send(self, text: str) -> None:
        self.write(text)
        await self.flush()

    def on_connection_close(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if self.watcher is not None:
            self.site.hub.leave(self.watcher)
            self.watcher = None
