"""What becomes of the errors of clients: words that retries are decided on."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from worker.llm.client import ModelCallFailed
from worker.llm.failures import failure_of
from worker.llm.setbacks import setback_of


@contextmanager
def wrapped() -> Iterator[None]:
    """As clients wrap the errors of their sockets."""
    try:
        yield
    except OSError as error:
        raise httpx.ReadTimeout(str(error)) from error


def failure_after(error: OSError) -> ModelCallFailed:
    with pytest.raises(httpx.ReadTimeout) as caught, wrapped():
        raise error
    return failure_of(caught.value, 600, ())


def test_a_lost_network_is_no_slow_server() -> None:
    lost = failure_after(OSError(errno.ETIMEDOUT, "Connection timed out"))
    slow = failure_after(TimeoutError("timed out"))

    assert lost.message == "Connection reset: the server stopped responding"
    assert slow.message == "timed out after 600s"


def test_a_lost_network_is_a_setback_of_the_provider() -> None:
    lost = failure_after(OSError(errno.ETIMEDOUT, "Connection timed out"))

    setback = setback_of(lost, "openai", "openai:m")

    assert setback is not None
    assert (setback.kind, setback.name) == ("outage", "openai")
