"""Carries requests in batches of providers, once there are any."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from sleipnir.scheduler.process.periodic import repeat
from sleipnir.scheduler.store.economy.groups import Groups
from sleipnir.worker.delivery.services import Services

if TYPE_CHECKING:
    from sleipnir.worker.llm.economy.courier import Courier

_EVERY_S = 1.0
# Where no visit begins: it is visits that collect requests.
_IDLE_EVERY_S = 10.0


class Carriage:
    """Starts the courier of this process when there is something to carry."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._groups = Groups(services.store)
        self._courier: Courier | None = None
        self._idle_at: float | None = None  # when there was nothing, and no visit, at a look

    def start(self) -> None:
        """Look once a second, or every ten where nothing happens; an idle look is one command."""
        repeat(self._look, _EVERY_S, "batches")

    def _look(self) -> None:
        if self._services.leases.closed or self._rests():
            return
        now, has_visits = monotonic(), bool(self._services.leases.held())
        if self._groups.is_idle():
            self._idle_at = None if has_visits else now
            return
        self._idle_at = None
        if self._courier is None:
            self._courier = self._services.models.courier(self._services.store)
            self._courier.start()
        self._courier.turn()

    def _rests(self) -> bool:
        """Return whether there was nothing lately, and no visit has begun here since."""
        if self._idle_at is None or monotonic() - self._idle_at > _IDLE_EVERY_S:
            return False
        taken_at, _ = self._services.leases.latest()
        return taken_at is None or taken_at < self._idle_at
