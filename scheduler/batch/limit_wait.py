"""Finds the limit of model calls that holds up a batch, and until when."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sleipnir.scheduler.limits.records import visit_of
from sleipnir.scheduler.store.limit_queries import LimitQueries

# Number of next calls read per limit.
_LOOKED_AT = 100


class LimitWait(NamedTuple):
    """A limit that runs wait for.

    Args:
        name: the name of a limit, pause or budget.
        until_ms: when the first of their calls may try again, by Redis' clock.
    """

    name: str
    until_ms: int


def limit_wait(queries: LimitQueries, our_run: Callable[[str], object]) -> LimitWait | None:
    """Return the limit at which one of our runs has the earliest turn; None if none waits.

    Args:
        our_run: returns a value for the id of one of our runs, None for others.
    """
    now_ms, ahead_ms = queries.now_ms(), queries.ahead_ms()
    found = (
        LimitWait(name, at - ahead_ms)
        for name in queries.waited_for()
        for call, at in queries.next_turns(name, now_ms, _LOOKED_AT)
        if our_run(visit_of(call)[0])
    )
    return min(found, key=lambda wait: wait.until_ms, default=None)
