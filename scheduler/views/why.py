"""Explains why a run does not progress: in one sentence, and each thing that holds it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.events import RetryScheduled, VisitDelayed
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.machines import Machines
from sleipnir.scheduler.views.engine import queue_before

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import run as types


def _block(
    kind: str,
    reason: str,
    since: int | None = None,
    until: int | None = None,
    node: str | None = None,
    question_id: str | None = None,
) -> types.BlockDocument:
    return {
        "kind": kind,
        "reason": reason,
        "node": node,
        "question_id": question_id,
        "since": None if since is None else to_rfc3339(since),
        "until": None if until is None else to_rfc3339(until),
    }


def why_document(client: Client, run: Run) -> types.WhyDocument:
    """Return what an open run waits for; nulls if it progresses."""
    blocks = list(_blocks(client, run))
    if not blocks:
        return {"reason": None, "since": None, "until": None, "blocks": []}
    first = blocks[0]
    return {
        "reason": first["reason"],
        "since": first["since"],
        "until": first["until"],
        "blocks": blocks,
    }


def _blocks(client: Client, run: Run) -> Iterator[types.BlockDocument]:
    """What holds a run up, what a person can do something about first."""
    if run.is_final:
        return
    if (held := client.waits_for([run]).get(run.run_id)) is not None:
        is_unserved = run.run_id in client.unserved_queues([run])
        yield _block("workers" if is_unserved else "person", held)
    questions = client.open_questions(run.run_id)
    for question in questions:
        yield _block(
            "question",
            f"a person has to answer what '{question.place}' asks",
            question.asked_at,
            node=question.node,
            question_id=question.question_id,
        )
    if held is not None:
        return
    newest = client.queries.newest_entry(run.run_id)
    event = None if newest is None else newest.event
    if newest is not None and isinstance(event, VisitDelayed | RetryScheduled):
        until = newest.at + int(event.delay_s * 1000) if event.delay_s else None
        reason = f"'{event.node}' is waiting: {event.reason}"
        yield _block("pause", reason, newest.at, until, event.node)
    elif not questions:
        yield from _of_workers(client, run)


def _of_workers(client: Client, run: Run) -> Iterator[types.BlockDocument]:
    if not Machines(client.store.client).any_work():
        reason = "no worker is running; start one with `sleipnir worker`"
        yield _block("workers", reason, run.created_at if run.started_at is None else None)
    elif run.status == Status.QUEUED:
        yield _block("queue", _queued_behind(client, run), run.created_at)


def _queued_behind(client: Client, run: Run) -> str:
    queue = queue_before(client, run)
    if queue is None or queue.length < 2:
        return "it is queued until a worker is free"
    return (
        f"it is queued until a worker is free, among {queue.length:,} messages, "
        f"the oldest waiting for {queue.oldest_s:.0f} s"
    )
