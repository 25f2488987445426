"""An engine that works on its own while a test waits for what it serves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.engine import Engine

_LOOK_S = 0.01


@contextmanager
def driven(engine: Engine) -> Iterator[None]:
    """Act as the worker until the block ends."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(_LOOK_S):
            engine.drive()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
