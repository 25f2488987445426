"""Messages between the runs of a tree: each run has an inbox, kept as long as its history."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from sleipnir.graphs.state import encode
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.model import FINAL, Lease, RunContext
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.transitions import Transitions

# Graph agents send no messages.
with lazy_imports():
    from sleipnir.scheduler.runs.conversation import messages, roster

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.conversation.messages import Letter, Teammate
    from sleipnir.scheduler.runs.events import Event


class Messages:
    """Messages between agents, and the teammates each can write to."""

    def __init__(self, store: Transitions) -> None:
        self._store = store
        self._redis: Any = store.client  # redis-py types every answer as sync or async

    def send(
        self, lease: Lease, position: int, turn: str, letter: Letter, event: Event | None
    ) -> None:
        """Deliver a message and record `turn`, the result of the sending call, at most once.

        Args:
            position: the number of entries in the visit's conversation before this one.

        Raises:
            NotReachable: the recipient is neither a child of the run, nor one of its siblings, nor
                a normal agent that has started it, nor another member of its team.
            NotOpen: the recipient has ended.
            InboxFull: the recipient has too many unread messages.
            RunClosed, StaleVisit: the run has ended, or another delivery holds the visit.
        """
        self._store.call(
            "send_message",
            lease.run_id,
            lease.visit,
            lease.token,
            position,
            turn,
            self._store.event(event),
            letter.to,
            letter.member,
            messages.MOST_UNREAD,
            encode({"from": letter.sender, "text": letter.text}),
        )

    def read(self, run_id: str, first: int) -> list[dict[str, Any]]:
        """Return the messages from index `first` on (from 0), in the form shown to models."""
        texts = self._redis.lrange(run_key("messages", run_id), first, -1)
        return [shown(json.loads(text)) for text in texts]

    def teammates(self, run_id: str, name: str | None = None) -> list[Teammate]:
        """Return the runs that a run may write to: children, siblings, and a normal agent above.

        Args:
            name: by which a model calls the only one that is wanted; the records of runs that
                cannot have this name are not read.
        """
        above = self._redis.hget(run_key("run", run_id), "parent")
        parent = above.partition(" ")[0] if above else None
        own = self._redis.lrange(run_key("children", run_id), 0, -1)
        ids = own if parent is None else [*own, *self._around(run_id, parent)]
        if name is not None:
            ids = [each for each in ids if _may_have(each, parent, name)]
        with self._redis.pipeline(transaction=False) as pipe:
            for each in ids:
                pipe.hmget(run_key("run", each), "agent", "status", "spawned")
            records = pipe.execute()
        return [
            messages.Teammate(
                each, _name(each, parent, agent, spawned), agent, status in FINAL, each in own
            )
            for each, (agent, status, spawned) in zip(ids, records, strict=True)
            if agent is not None
        ]

    def _around(self, run_id: str, parent: str) -> list[str]:
        """Return the siblings of a run, then its parent if that is a normal agent."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.lrange(run_key("children", parent), 0, -1)
            pipe.hget(run_key("run", parent), "context")
            children, context = pipe.execute()
        siblings = [child for child in children if child != run_id]
        converses = context is not None and RunContext.from_json(context).converses
        return [*siblings, parent] if converses else siblings


def _may_have(run_id: str, parent: str | None, name: str) -> bool:
    """Return whether a run may have a name for one below `parent`."""
    is_parent = run_id == parent and name == messages.PARENT
    return is_parent or roster.ends_as(name, run_id)


def _name(run_id: str, parent: str | None, agent: str, spawned: str | None) -> str:
    """Return the name of a run for one below `parent`."""
    if run_id == parent:
        return messages.PARENT
    return roster.handle(agent, run_id) if spawned else run_id


def shown(message: dict[str, Any]) -> dict[str, Any]:
    """Return a stored message in the form shown to models."""
    return {
        "from": message["from"],
        "payload": {"type": "text", "content": message["text"]},
        "timestamp": to_rfc3339(message["at"]),
    }
