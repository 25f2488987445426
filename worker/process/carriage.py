"""Carries requests in batches of providers, once there are any."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.scheduler.process.periodic import repeat
from sleipnir.scheduler.store.economy.groups import Groups
from sleipnir.worker.delivery.services import Services

if TYPE_CHECKING:
    from sleipnir.worker.llm.economy.courier import Courier

_EVERY_S = 1.0


class Carriage:
    """Starts the courier of this process when there is something to carry."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._groups = Groups(services.store)
        self._courier: Courier | None = None

    def start(self) -> None:
        """Look once a second; an idle look is one command."""
        repeat(self._look, _EVERY_S, "batches")

    def _look(self) -> None:
        if self._services.leases.closed or self._groups.is_idle():
            return
        if self._courier is None:
            self._courier = self._services.models.courier(self._services.store)
            self._courier.start()
        self._courier.turn()
