"""Hands the next message to the thread that has just committed a visit.

A message otherwise goes through Redis, the event loop and another thread before its visit begins,
which costs about as much as the visit. The commit also begins that visit, where it can.
"""

from __future__ import annotations

from threading import local
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.model import Begun, Lease
from sleipnir.scheduler.store.visits import Advanced, Taker

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.ids import VisitId
    from sleipnir.worker.delivery.delivery import Delivery


class Handover(local):
    """Of the current thread."""

    queues = ""  # those whose next message it would take, separated by blanks; "": it would not
    message: str | None = None  # that one, as the broker has it
    begun: tuple[Lease, Begun] | None = None  # its visit, if that has begun

    def take(self, advanced: Advanced, taker: Taker) -> None:
        """Take what a commit has handed over."""
        self.message = advanced.message
        if taker.lease and advanced.begun:
            self.begun = taker.lease, advanced.begun

    def take_begun(self, run_id: str, visit_id: str) -> tuple[Lease, Begun] | None:
        """Return lease and contents of a visit, once, if it has begun."""
        begun, self.begun = self.begun, None
        if begun is None or (begun[0].run_id, begun[0].visit) != (run_id, visit_id):
            return None
        return begun


handover = Handover()


def taker_of(delivery: Delivery, following: VisitId | None) -> Taker:
    """Return how the current thread would go on.

    Args:
        following: the visit that it would begin with the commit, if there is one.
    """
    if not handover.queues or following is None:
        return Taker(handover.queues)
    visit = delivery.visit
    lease = Lease(visit.run_id, following, delivery.services.leases.new_token())
    return Taker(handover.queues, lease, visit.agent.keys_for(following))
