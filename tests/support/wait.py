"""Waits for other processes in tests, by polling what they change."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

BETWEEN_LOOKS_S = 0.01


def wait_until(predicate: Callable[[], T], description: str, timeout_s: float = 60) -> T:
    """Return the first true value of `predicate`; fail the test if there is none in time."""
    deadline = monotonic() + timeout_s
    while not (value := predicate()):
        if monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {description}")
        threading.Event().wait(BETWEEN_LOOKS_S)
    return value
