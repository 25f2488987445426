"""What workers report of single tasks, for Flower's page of them: only while somebody watches.

Reports take workers time: each message then goes Celery's way (worker/strategy.py). Our own pages
need none.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

WATCHED_S = 600.0
# At the monitor's end, for Redis to hand on that nobody watches any more.
_GOODBYE_S = 2.0


class TaskEvents:
    """Switches reports of all workers on and off.

    Args:
        flower: the application whose page shows them.
        always: they stay on as long as it runs.
    """

    def __init__(self, flower: Any, *, always: bool) -> None:
        self._flower = flower
        self.always = always
        self.ends_at_ms: int | None = None  # of the watch that is under way
        self._end: asyncio.TimerHandle | None = None

    async def watch(self, now_ms: int) -> None:
        """Have workers report tasks for 10 minutes from now on, those too that start meanwhile."""
        self._forget()
        self.ends_at_ms = now_ms + round(1000 * WATCHED_S)
        loop = asyncio.get_running_loop()
        self._end = loop.call_later(WATCHED_S, lambda: loop.create_task(self.stop()))
        self._flower.events.timer.start()
        await self._flower.events.on_enable_events()

    async def stop(self) -> None:
        """Have them stop."""
        self._forget()
        await asyncio.to_thread(self._flower.capp.control.disable_events)

    def _forget(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._flower.events.timer.stop()
        self._end = self.ends_at_ms = None

    def close(self) -> None:
        """Leave no worker reporting to nobody; blocks for a moment."""
        if self.always or self._end is not None:
            say = threading.Thread(target=self._flower.capp.control.disable_events, daemon=True)
            say.start()
            say.join(_GOODBYE_S)
