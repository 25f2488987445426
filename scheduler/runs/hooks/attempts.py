"""When a delivery that has failed is tried again, and when that ends."""

from __future__ import annotations

from random import uniform
from typing import Final

_MINUTE, _HOUR = 60, 3600
# Pauses after the first, second … attempt, s; there is none after the last.
_PAUSES_S: Final = (
    *(5, 5 * _MINUTE, 30 * _MINUTE),
    *(2 * _HOUR, 5 * _HOUR, 10 * _HOUR, 14 * _HOUR, 20 * _HOUR, 24 * _HOUR),
)
ATTEMPTS: Final = 1 + len(_PAUSES_S)
_SPREAD: Final = 0.1
_LONGEST_ASKED_S: Final = 1.0 * _HOUR
# A hook that fails for so long, and never succeeds, is disabled.
PATIENCE_S: Final = 5 * 24 * _HOUR


def pause_s(attempt: int, asked_s: float | None = None) -> float | None:
    """Return the pause after attempt number `attempt`, counted from 1; None after the last.

    Args:
        asked_s: what the receiver asked for; it wins if it is longer, up to an hour.
    """
    if attempt >= ATTEMPTS:
        return None
    pause = _PAUSES_S[attempt - 1] * uniform(1 - _SPREAD, 1 + _SPREAD)
    return max(pause, min(asked_s or 0.0, _LONGEST_ASKED_S))
