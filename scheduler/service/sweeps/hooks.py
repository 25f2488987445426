"""Deliveries to hooks that are due, and what keeps hooks in order."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.service.sweeps.tick import Tick
from sleipnir.scheduler.store.run_store import RunStore

with lazy_imports():
    from sleipnir.scheduler.runs.hooks import model

if TYPE_CHECKING:
    from sleipnir.scheduler.store.hooks.deliveries import DeliveryPlace

logger = logging.getLogger("sleipnir.scheduler")


def deliver_event(tick: Tick, digits: str, hook: str, event_id: str) -> None:
    """Have a hook told of an event."""
    if tick.deliverer is not None:
        tick.deliverer.offer(digits, hook, event_id)


class HookUpkeep:
    """Lets transitions know of the hooks that there are, and bounds what waits for each.

    Whoever changes a hook also tells all partitions; this is in case it died meanwhile.
    """

    def __init__(self, store: RunStore) -> None:
        self._store = store
        self._is_checked = False

    def run_once(self) -> None:
        """Look once."""
        hooks = self._store.hooks.read_all()
        if hooks or not self._is_checked:
            if not self._store.hooks.is_announced():
                self._store.hooks.announce()
            self._is_checked = not hooks
        if hooks and self._store.deliveries.count_open() > model.MOST_OPEN:
            self._give_up_oldest()

    def _give_up_oldest(self) -> None:
        by_hook: dict[str, list[DeliveryPlace]] = {}
        for place, _ in self._store.deliveries.read_open():
            by_hook.setdefault(place.hook, []).append(place)
        for hook, places in by_hook.items():
            too_many = places[: -model.MOST_OPEN]
            for place in too_many:
                self._store.deliveries.remove(place)
            if too_many:
                self._store.hooks.count(hook, "given_up", len(too_many))
                logger.error(
                    "hook '%s' has more than %s events to be told of: gave up the oldest %d",
                    hook,
                    f"{model.MOST_OPEN:,}",
                    len(too_many),
                )
