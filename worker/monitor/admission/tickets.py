"""Tickets for the monitor, each of which opens the pages once.

A browser's command line is visible in the list of processes, where the link's key would stay valid.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from time import monotonic

_GOOD_S = 60.0
_BYTES = 32


class Tickets:
    """Tickets that were not used yet."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._good_until: dict[str, float] = {}

    def issue(self) -> str:
        """Issue a ticket that is valid for a minute."""
        ticket = secrets.token_urlsafe(_BYTES)
        self._good_until[ticket] = self._clock() + _GOOD_S
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Use up a ticket; return whether it was valid."""
        return self._good_until.pop(ticket, 0.0) > self._clock()
