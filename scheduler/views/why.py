"""Explains in one sentence why a run does not progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.events import RetryScheduled, VisitDelayed
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.views.documents import Document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


def why_document(client: Client, run: Run) -> Document:
    """Return what an open run waits for, and until when if known; null if it progresses."""
    reason, until = _why(client, run)
    return {"reason": reason, "until": None if until is None else to_rfc3339(until)}


def _why(client: Client, run: Run) -> tuple[str | None, int | None]:
    if run.is_final:
        return None, None
    if (held := client.waits_for([run]).get(run.run_id)) is not None:
        return held, None
    questions = client.open_questions(run.run_id)
    if questions and run.status == Status.WAITING:
        return f"a person has to answer what '{questions[0].place}' asks", None
    newest = client.queries.newest_entry(run.run_id)
    event = None if newest is None else newest.event
    if newest is not None and isinstance(event, VisitDelayed | RetryScheduled):
        until = newest.at + int(event.delay_s * 1000)
        return f"'{event.node}' is waiting: {event.reason}", until
    if not Machines(client.store.client).workers():
        return "no worker is running; start one with `sleipnir worker`", None
    if run.status == Status.QUEUED:
        return "it is queued until a worker is free", None
    return None, None
