"""Tickets for the monitor: each opens the pages once.

A browser's command line shows in the list of processes, where the key of the link would stay good.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from time import monotonic

_GOOD_S = 60.0
_BYTES = 32


class Tickets:
    """Those that nobody has used yet."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._good_until: dict[str, float] = {}

    def issue(self) -> str:
        """A new one, good for a minute."""
        ticket = secrets.token_urlsafe(_BYTES)
        self._good_until[ticket] = self._clock() + _GOOD_S
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Whether one is good; it is not any more after that."""
        return self._good_until.pop(ticket, 0.0) > self._clock()
