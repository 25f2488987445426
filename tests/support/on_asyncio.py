"""Programs on asyncio, run beside the test process' own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_thread(program: Coroutine[Any, Any, T]) -> T:
    """What a coroutine comes to.

    In the main thread it would leave a loop unclosed that libraries have made there.
    """
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, program).result()
