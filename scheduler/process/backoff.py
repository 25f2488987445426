"""Pauses between the attempts at what has failed: one rule, with the numbers of each kind."""

from __future__ import annotations

from random import random

from sleipnir.records import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses that double with each attempt."""

    first_s: float
    longest_s: float
    # The part that chance may take off, so that what failed together does not come back together.
    spread: float = 0.0

    def pause_s(self, attempt: int, asked_s: float | None = None) -> float:
        """Return the pause after attempt number `attempt`, counted from 1.

        Args:
            asked_s: what a server asked for; it wins if it is longer.
        """
        # Attempts are unlimited, so the exponent must be bounded.
        pause_s = min(self.first_s * 2.0 ** min(attempt - 1, 64), self.longest_s)
        return max(pause_s * (1.0 - self.spread * random()), asked_s or 0.0)


# Of a process that keeps exiting.
RESTART = Backoff(0.1, 5.0)
# Of one batch of texts.
EMBEDDING = Backoff(1.0, 60.0)
# Of all calls that a provider fails: too many of them, or the server is down.
PROVIDER = Backoff(1.0, 60.0)
# A person has to add money.
EXHAUSTED_QUOTA = Backoff(30.0, 900.0)


def of_node(delay_s: float) -> Backoff:
    """Return the pauses of a node that says how long the first one is."""
    return Backoff(delay_s, 60.0, spread=0.25)
