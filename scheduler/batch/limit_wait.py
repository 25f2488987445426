"""Which limit of model calls holds the runs of a batch up, and until when."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from sleipnir.scheduler.limits.records import visit_of
from sleipnir.scheduler.store.limit_queries import LimitQueries

# Of each limit: those that go on next.
_LOOKED_AT = 100


class LimitWait(NamedTuple):
    """What runs wait for.

    Args:
        name: of a limit, a pause or a budget.
        until_ms: when the first of their calls is due, by Redis' clock.
    """

    name: str
    until_ms: int


def limit_wait(queries: LimitQueries, our_run: Callable[[str], object]) -> LimitWait | None:
    """Return the limit with the earliest turn of one of our runs; None if no call of theirs waits.

    Args:
        our_run: something for the id of such a run, None for others.
    """
    now_ms, ahead_ms = queries.now_ms(), queries.ahead_ms()
    found = (
        LimitWait(name, at - ahead_ms)
        for name in queries.waited_for()
        for call, at in queries.next_turns(name, now_ms, _LOOKED_AT)
        if our_run(visit_of(call)[0])
    )
    return min(found, key=lambda wait: wait.until_ms, default=None)
