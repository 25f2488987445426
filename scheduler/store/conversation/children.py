"""Child runs spawned by the models of normal agents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.model import Lease, NewRun
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.record import first_checkpoint, flat, record_fields, submitted
from sleipnir.scheduler.store.transitions import Transitions

# Runs of graph agents have no memory.
with lazy_imports():
    from sleipnir.scheduler.runs.conversation import memory

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.events import Event


class Children:
    """Transitions and reads of spawned child runs, for their parents."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def start(
        self, lease: Lease, child: NewRun, most: int, *, event: Event | None = None
    ) -> int | None:
        """Start a child run, at most once, without ending its parent's turn.

        Args:
            most: how many spawned children may be alive at once.

        Returns:
            None if it was started; else the number of children alive, which is already `most`.

        Raises:
            IdTaken: another child has an id with the same last 8 digits, its handle.
        """
        fields = [*record_fields(child, has_queues=self._store.has_queues), "spawned", "1"]
        answer = self._store.call(
            "spawn_agent",
            lease.run_id,
            lease.visit,
            lease.token,
            most,
            child.run_id,
            child.start,
            child.agent,
            child.digest,
            first_checkpoint(child),
            self._store.event(event),
            self._store.event(submitted(child)),
            len(fields) // 2,
            *fields,
            *flat(child.state),
        )
        return None if answer.outcome == "started" else int(answer.alive)

    def spawned_by(self, lease: Lease) -> list[str]:
        """Return the spawned children of a visit that are alive."""
        redis: Any = self._store.client  # redis-py types every answer as sync or async
        alive = redis.hvals(run_key("spawned", lease.run_id))
        with redis.pipeline(transaction=False) as pipe:
            for run_id in alive:
                pipe.hget(run_key("run", run_id), "parent")
            parents = pipe.execute()
        of = f"{lease.run_id} {lease.visit}"
        return [run_id for run_id, parent in zip(alive, parents, strict=True) if parent == of]

    def result(self, run_id: str) -> dict[str, Any] | None:
        """Return the result of a child that has ended, as its waiting parent gets it, or None."""
        text = self._store.call("read_child", run_id).result
        return json.loads(text) if text else None

    def texts(self, run_id: str) -> str | None:
        """Return the text of everything the child's model has said so far, from its state."""
        text = self._store.client.hget(run_key("state", run_id), memory.TEXTS)
        return None if text is None else str(json.loads(str(text)))

    def statuses(self, run_ids: Sequence[str]) -> list[str | None]:
        """Return the statuses of runs; None for a run that no longer exists."""
        with self._store.client.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hget(run_key("run", run_id), "status")
            return list(pipe.execute())
