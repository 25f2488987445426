"""What the sweeps of one tick share."""

from __future__ import annotations

from dataclasses import dataclass

from sleipnir.scheduler.store.runs import RunStore


@dataclass(frozen=True, slots=True)
class Tick:
    """One pass over the due timers."""

    store: RunStore
