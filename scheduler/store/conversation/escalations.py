"""Open questions of a run's descendants that the root's model may answer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.state import encode
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.model import Lease, RunContext
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.transitions import Transitions

# Only reading runs needs neither.
with lazy_imports():
    from sleipnir.scheduler.runs import events
    from sleipnir.scheduler.runs.conversation import escalation as escalations

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.conversation.escalation import Escalation
    from sleipnir.scheduler.runs.events import Event


class Escalations:
    """Questions of the runs below a root, and its model's replies to them."""

    def __init__(self, store: Transitions) -> None:
        self._store = store
        self._redis: Any = store.client  # redis-py types every answer as sync or async

    def pending(self, root: str) -> list[Escalation]:
        """Return the open questions of a root's descendants, oldest first."""
        escalations_key = run_key("escalations", root)
        names = [name.partition(" ") for name in self._redis.zrange(escalations_key, 0, -1)]
        # Earlier versions listed guards, too, whose names are without a call id.
        if guards := [" ".join((run_id, name)) for run_id, _, name in names if " " not in name]:
            self._redis.zrem(escalations_key, *guards)
        names = [each for each in names if " " in each[2]]
        if not names:
            return []
        with self._redis.pipeline(transaction=False) as pipe:
            for run_id, _, question in names:
                pipe.hget(run_key("questions", run_id), question)
                pipe.hget(run_key("run", run_id), "context")
            answers = pipe.execute()
        return [
            _escalation(run_id, question, json.loads(text), RunContext.from_json(context))
            for (run_id, _, question), text, context in zip(
                names, answers[::2], answers[1::2], strict=True
            )
            if text is not None  # answered meanwhile
        ]

    def reply(
        self,
        lease: Lease,
        position: int,
        turn: str,
        escalation: Escalation,
        reply: str,
        event: Event | None,
    ) -> None:
        """Answer a question and record `turn`, the result of the answering call, at most once.

        Args:
            position: the number of entries in the visit's conversation before this one.

        Raises:
            NotWaiting: it was answered or withdrawn meanwhile, or has timed out.
            RunClosed, StaleVisit: the run has ended, or another delivery holds the visit.
        """
        self._store.call(
            "reply_escalation",
            lease.run_id,
            lease.visit,
            lease.token,
            position,
            turn,
            self._store.event(event),
            escalation.run_id,
            escalation.visit,
            escalation.call,
            encode({"answer": escalation.answer(reply)}),
            self._store.event(events.QuestionAnswered(escalation.node)),
        )


def _escalation(run_id: str, name: str, fields: dict[str, Any], context: RunContext) -> Escalation:
    visit, _, call = name.partition(" ")
    return escalations.Escalation(
        run_id=run_id,
        visit=visit,
        call=call,
        asker=context.handle or run_id,
        agent=fields["agent"],
        node=fields["node"],
        kind=fields["kind"],
        question=fields["text"],
        options=tuple(fields["options"]),
    )
