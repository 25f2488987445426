"""Which errors of Redis may pass by themselves, and commands that are retried until they have."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import (
    AuthenticationError,
    ClusterDownError,
    ConnectionError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TimeoutError,
    TryAgainError,
)
from redis.retry import Retry

# Transient errors that redis-py has classes for, ...
_TRANSIENT_ERRORS = (
    ClusterDownError,
    MasterDownError,
    OutOfMemoryError,
    ReadOnlyError,
    TryAgainError,
)
# ... and the codes of all of them, as they appear in error replies and, with Redis 6.2, in
# errors of scripts.
_TRANSIENT_CODE = re.compile(
    r"(?:^|: -?)(?:BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN"
    r"|UNBLOCKED) "
)

T = TypeVar("T")


def is_transient(error: BaseException) -> bool:
    """Return whether Redis may recover by itself: unreachable, loading, busy, full, no primary.

    A command refused this way had no effect, and neither had a script: it is refused before it
    starts, or at its first write.
    """
    if isinstance(error, AuthenticationError):
        return False
    if isinstance(error, (ConnectionError, TimeoutError, *_TRANSIENT_ERRORS)):
        return True
    return (
        isinstance(error, ResponseError) and _TRANSIENT_CODE.search(message_of(error)) is not None
    )


def message_of(error: BaseException) -> str:
    """Return the message of Redis without the command that a pipeline puts before it.

    The command may contain anything, also text that looks like an error code.
    """
    return str(error).rpartition(" of pipeline caused error: ")[2]


class RetryWhileUnavailable(Retry):
    """Retries commands while Redis is unreachable or refuses them with a transient error."""

    def __init__(self, backoff: ExponentialWithJitterBackoff, retries: int) -> None:
        super().__init__(backoff, retries, (ConnectionError, TimeoutError, ResponseError))

    def call_with_retry(
        self,
        do: Callable[[], T],
        fail: Callable[..., Any],
        is_retryable: Callable[[Exception], bool] | None = None,
        with_failure_count: bool = False,
    ) -> T:
        """Call with retries; `is_retryable` of redis-py is replaced by `is_transient`."""
        return super().call_with_retry(do, fail, is_transient, with_failure_count)
