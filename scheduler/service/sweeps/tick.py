"""What the sweeps of one tick share."""

from __future__ import annotations

from typing import Protocol

from sleipnir.records import dataclass
from sleipnir.scheduler.store.run_store import RunStore


class DeliversEvents(Protocol):
    """Who sends events to hooks; it must not keep the sweep waiting."""

    def offer(self, digits: str, hook: str, event_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Tick:
    """One pass over the due timers."""

    store: RunStore
    deliverer: DeliversEvents | None = None  # None: events stay due for another scheduler
