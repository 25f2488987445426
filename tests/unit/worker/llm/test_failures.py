"""What becomes of the errors of clients: words for people, and the facts that were at hand."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from sleipnir.worker.llm.client import FailureKind, ModelCallFailed
from sleipnir.worker.llm.provider.failures import failure_of

REQUEST = httpx.Request("POST", "https://api.openai.com/v1/chat/completions")


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


def failure_at(status: int, error: object, **headers: str) -> ModelCallFailed:
    """The server answered with an error, as clients tell of it."""
    response = httpx.Response(status, json={"error": error}, headers=headers, request=REQUEST)
    return failure_of(httpx.HTTPStatusError("", request=REQUEST, response=response), 600, ())


def test_a_lost_network_is_no_slow_server() -> None:
    lost = failure_after(OSError(errno.ETIMEDOUT, "Connection timed out"))
    slow = failure_after(TimeoutError("timed out"))

    assert lost.message == "Connection reset: the server stopped responding"
    assert slow.message == "timed out after 600s"
    assert (lost.kind, slow.kind) == ("unavailable", "timed_out")


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (429, "slow down", "throttled"),
        (503, "overloaded", "throttled"),
        (529, "Overloaded", "throttled"),
        (429, {"message": "no", "code": "insufficient_quota"}, "quota_exceeded"),
        (429, {"message": "no", "type": "insufficient_quota", "code": None}, "quota_exceeded"),
        (429, {"message": "You exceeded your current quota"}, "quota_exceeded"),
        (402, "payment required", "quota_exceeded"),
        (400, "quota is no number", "other"),
        (400, {"message": "no", "code": "context_length_exceeded"}, "too_long"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "too_long"),
        (400, "The input token count (9) exceeds the maximum number of tokens allowed", "too_long"),
        (401, "HTTP 429: bad key", "other"),
        (500, {"code": "insufficient_quota"}, "other"),
    ],
)
def test_the_status_and_the_server_s_code_tell_the_kind(
    status: int, error: Any, kind: FailureKind
) -> None:
    failure = failure_at(status, error)

    assert (failure.kind, failure.status) == (kind, status)
    assert failure.message.startswith(f"HTTP {status}: ")


def test_what_the_server_asks_for_goes_along() -> None:
    assert failure_at(429, "slow down", **{"Retry-After": "2"}).retry_after_s == 2.0
    assert failure_at(429, "slow down").retry_after_s is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "86400"}, 600.0),
        ({"Retry-After-Ms": "1500"}, 1.5),
        ({"Retry-After": "Fri, 02 Jan 2026 10:00:07 GMT"}, 7.0),
        ({"Retry-After": "Fri, 02 Jan 2026 09:00:00 GMT"}, 0.0),
        ({"Retry-After": "Sat, 03 Jan 2026 10:00:00 GMT"}, 600.0),
        ({"Retry-After": "Fri, 02 Jan 2026 10:00:07"}, 7.0),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "Fri, 99 Jan 99999 10:00:00 GMT"}, None),
    ],
)
def test_a_pause_may_be_a_date_and_is_bounded(
    headers: dict[str, str], seconds: float | None
) -> None:
    now = {"Date": "Fri, 02 Jan 2026 10:00:00 GMT"}

    assert failure_at(503, "slow down", **now, **headers).retry_after_s == seconds


def test_a_date_counts_by_our_clock_if_the_server_tells_no_time() -> None:
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)

    found = failure_at(503, "slow down", **{"Retry-After": until}).retry_after_s

    assert found is not None
    assert 1 < found <= 60


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (httpx.ConnectTimeout(""), "connecting at https://api.openai.com timed out"),
        (
            httpx.ConnectError("[Errno -2] Name or service not known"),
            "no connection at https://api.openai.com: [Errno -2] Name or service not known",
        ),
        (
            httpx.RemoteProtocolError("Server disconnected"),
            "Connection reset at https://api.openai.com",
        ),
    ],
)
def test_a_server_that_is_not_reached_is_unavailable(
    error: httpx.TransportError, message: str
) -> None:
    error.request = REQUEST

    failure = failure_of(error, 600, ())

    assert (failure.message, failure.kind, failure.status) == (message, "unavailable", None)


def test_what_cannot_be_read_is_no_fault_of_the_connection() -> None:
    failure = failure_of(httpx.DecodingError("packed as 'br'", request=REQUEST), 600, ())

    assert (failure.message, failure.kind) == ("packed as 'br'", "other")
