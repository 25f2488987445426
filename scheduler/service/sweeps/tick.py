"""What the sweeps of one tick share."""

from __future__ import annotations

from sleipnir.records import dataclass
from sleipnir.scheduler.store.run_store import RunStore


@dataclass(frozen=True, slots=True)
class Tick:
    """One pass over the due timers."""

    store: RunStore
