"""The one source of "now" that decisions use: the clock of Redis, in milliseconds.

Workers measure durations with `time.monotonic`; nobody compares wall clocks of machines.
"""

from __future__ import annotations

from datetime import UTC, datetime


def to_rfc3339(ms: int) -> str:
    """An instant of the Redis clock as RFC 3339 text in UTC."""
    return (
        datetime.fromtimestamp(ms / 1000, tz=UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )
