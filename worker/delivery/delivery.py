"""One delivery of a visit that this worker has taken on."""

from __future__ import annotations

from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Begun, Lease
from sleipnir.worker.services import Services
from sleipnir.worker.visit.context import Visit


class DeliveryOver(Exception):
    """There is nothing more to do for a delivery; what was to be done about its visit is done."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The lease, what the store said when it was taken, and what the executor gets."""

    services: Services
    lease: Lease
    begun: Begun
    visit: Visit[Any]
