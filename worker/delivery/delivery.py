"""One delivery of a visit that this worker has taken on."""

from __future__ import annotations

from typing import Any

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Begun, Lease
from sleipnir.worker.delivery.services import Services
from sleipnir.worker.visit.context import Visit


class DeliveryOver(Exception):
    """Nothing more to do for a delivery; its visit has been dealt with."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """The lease, the reply to `begin`, and the `Visit` that the executor gets."""

    services: Services
    lease: Lease
    begun: Begun
    visit: Visit[Any]
