"""Instants of schedules that are due: they start runs."""

from __future__ import annotations

import logging
from contextlib import suppress

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import NotOver, ScheduleChanged
from sleipnir.scheduler.service.sweeps.tick import Tick

# Most engines have no schedules.
with lazy_imports():
    from sleipnir.scheduler.store.schedules import stepping

logger = logging.getLogger("sleipnir.scheduler")

# Of one schedule in a tick; what is left is due at the next one.
_MOST_FIRINGS = 20


def fire_schedule(tick: Tick, name: str) -> None:
    """Do what a schedule is due to do: start runs, count instants, or pause."""
    # It was changed or a run was started by somebody else meanwhile: the next tick looks again.
    with suppress(ScheduleChanged, NotOver):
        for _ in range(_MOST_FIRINGS):
            if not stepping.step(tick.store, name):
                return
