"""The children that the models of runs have spawned."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.runs.model import Lease, NewRun
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.record import first_checkpoint, flat, record_fields, submitted
from sleipnir.scheduler.store.transitions import Transitions

# Runs of graphs remember nothing.
with lazy_imports():
    from sleipnir.scheduler.agents import memory

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.events import Event


class Children:
    """Transitions and readings of child runs, for their parents."""

    def __init__(self, store: Transitions) -> None:
        self._store = store

    def start(
        self, lease: Lease, child: NewRun, most: int, *, event: Event | None = None
    ) -> int | None:
        """Start a child run, once, while its parent's turn goes on.

        Args:
            most: so many may be alive at once.

        Returns:
            None, or how many are alive, where they are too many for another one.

        Raises:
            IdTaken: another child has an id with the same last digits.
        """
        fields = [*record_fields(child), "spawned", "1"]
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

    def result(self, run_id: str) -> dict[str, Any] | None:
        """What has become of a child that is over, as who waits for it is told; or None."""
        text = self._store.call("read_child", run_id).result
        return json.loads(text) if text else None

    def texts(self, run_id: str) -> str | None:
        """What a child's state has of all that its model has said."""
        text = self._store.client.hget(run_key("state", run_id), memory.TEXTS)
        return None if text is None else str(json.loads(str(text)))

    def statuses(self, run_ids: Sequence[str]) -> list[str | None]:
        """Return the statuses of runs; None of one that is gone."""
        with self._store.client.pipeline(transaction=False) as pipe:
            for run_id in run_ids:
                pipe.hget(run_key("run", run_id), "status")
            return list(pipe.execute())
