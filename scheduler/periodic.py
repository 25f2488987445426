"""Pauses, and work that is done again and again on a thread of its own."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

logger = logging.getLogger("sleipnir")


def pause(seconds: float) -> None:
    """Do nothing for a while."""
    threading.Event().wait(seconds)  # never set: its wait is the pause


def repeat(
    work: Callable[[], None],
    every_s: float,
    name: str,
    *,
    when: Callable[[], object] = lambda: None,
) -> threading.Thread:
    """Do some work on a thread of its own, for the life of this process.

    Whatever it raises is logged, and the work is done again.

    Args:
        every_s: the pause before each time, the first one too.
        name: of the thread.
        when: waits until there is something to do, before the pause.
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
