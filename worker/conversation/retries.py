"""When a failed model call is made once more, and after what pause."""

from __future__ import annotations

from sleipnir.worker.visit.context import VisitLimits

# The words, in lower case, by which a failure counts as passing.
TRANSIENT = (
    "timed out",
    "rate limit",
    "429",
    "connection reset",
    "connection refused",
    "produced no output",
)


def is_transient(reason: str) -> bool:
    """Whether a failure may have passed by the time of another attempt, as its text says."""
    reason = reason.lower()
    return any(words in reason for words in TRANSIENT)


def pause_s(attempt: int, limits: VisitLimits) -> float:
    """The rest after attempt number `attempt`, from 1."""
    # The exponent is bounded because attempts are not.
    return min(limits.retry_base_s * 2.0 ** min(attempt - 1, 64), limits.retry_max_s)
