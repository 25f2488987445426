"""Switches workers' events about single tasks, for Flower's page, on while somebody watches.

Events cost workers time, as each message then takes Celery's way (worker/celery/strategy.py). Our
own pages do not need them.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

WATCHED_S = 600.0
# At the monitor's exit, how long to wait for Redis to tell workers to stop reporting.
_GOODBYE_S = 2.0


class TaskEvents:
    """Switches the events of all workers on and off.

    Args:
        flower: the application whose page shows them.
        always: keep them on while it runs.
    """

    def __init__(self, flower: Any, *, always: bool) -> None:
        self._flower = flower
        self.always = always
        self.ends_at_ms: int | None = None  # of the current watch
        self._end: asyncio.TimerHandle | None = None

    async def watch(self, now_ms: int) -> None:
        """Have all workers, also new ones, report tasks for the next 10 minutes."""
        self._forget()
        self.ends_at_ms = now_ms + round(1000 * WATCHED_S)
        loop = asyncio.get_running_loop()
        self._end = loop.call_later(WATCHED_S, lambda: loop.create_task(self.stop()))
        self._flower.events.timer.start()
        await self._flower.events.on_enable_events()

    async def stop(self) -> None:
        """Stop the reports."""
        self._forget()
        await asyncio.to_thread(self._flower.capp.control.disable_events)

    def _forget(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._flower.events.timer.stop()
        self._end = self.ends_at_ms = None

    def close(self) -> None:
        """Stop the reports before the monitor exits; blocks for up to `_GOODBYE_S`."""
        if self.always or self._end is not None:
            say = threading.Thread(target=self._flower.capp.control.disable_events, daemon=True)
            say.start()
            say.join(_GOODBYE_S)
