"""Runs asyncio programs apart from the test process's own event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_in_thread(program: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in a thread and return its result.

    In the main thread an event loop that libraries have created there would be left unclosed.
    """
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, program).result()
