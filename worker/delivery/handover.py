"""Hands the next message to the thread that has just committed a visit.

A message otherwise goes through Redis, the event loop and another thread before its visit begins,
which costs about as much as the visit. The commit also begins that visit, where it can.
"""

from __future__ import annotations

from threading import local
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.model import Begun, Lease


class Handover(local):
    """Of the current thread."""

    queues = ""  # those whose next message it would take, separated by blanks; "": it would not
    message: str | None = None  # that one, as the broker has it
    begun: tuple[Lease, Begun] | None = None  # its visit, if that has begun

    def take_begun(self, run_id: str, visit_id: str) -> tuple[Lease, Begun] | None:
        """Return lease and contents of a visit, once, if it has begun."""
        begun, self.begun = self.begun, None
        if begun is None or (begun[0].run_id, begun[0].visit) != (run_id, visit_id):
            return None
        return begun


handover = Handover()
