"""Pauses, and periodic work on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("sleipnir")


def pause(seconds: float) -> None:
    """Sleep for some seconds."""
    threading.Event().wait(seconds)  # never set: its wait is the pause


def repeat(
    work: Callable[[], None],
    every_s: float,
    name: str,
    *,
    when: Callable[[], object] = lambda: None,
) -> threading.Thread:
    """Repeat some work on a daemon thread for the life of this process.

    Exceptions are logged, and the work is repeated.

    Args:
        every_s: the pause before each run, including the first.
        name: the thread's name.
        when: blocks until there is something to do, before the pause.
    """

    def loop() -> None:
        while True:
            when()
            pause(every_s)
            try:
                work()
            except Exception:
                logger.exception("%s failed", name)

    thread = threading.Thread(target=loop, name=name, daemon=True)
    thread.start()
    return thread
