"""What teams share: messages for their members, kept until the step of their run is committed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.store.keys import run_key

if TYPE_CHECKING:
    from sleipnir.scheduler.runs.teams import Peer
    from sleipnir.scheduler.store.transitions import Transitions


class TeamFacts(NamedTuple):
    """What a run says of a team that one of its visits belongs to."""

    digest: str  # of the run's agent
    frontier: tuple[str, ...]
    items: int  # of the map, if the visit is that of an item


class Teams:
    """Reads the teams of a run; nothing here changes anything."""

    def __init__(self, store: Transitions) -> None:
        self._redis: Any = store.client  # redis-py types every answer as sync or async

    def facts(self, run_id: str, visit: VisitId) -> TeamFacts:
        """Return the facts on the team of a visit in its run's current step."""
        with self._redis.pipeline(transaction=False) as pipe:
            pipe.hmget(run_key("run", run_id), "digest", "frontier")
            if visit.map_visit is not None:
                pipe.hget(run_key("map", f"{run_id} {visit.map_visit}"), "total")
            (digest, frontier), *total = pipe.execute()
        return TeamFacts(digest, tuple((frontier or "").split()), int(*total) if total else 0)

    def parent_of(self, run_id: str) -> tuple[str, VisitId]:
        """Return the run and the visit that have started a run."""
        parent, _, visit = self._redis.hget(run_key("run", run_id), "parent").partition(" ")
        return parent, VisitId(visit)

    def read_count(self, run_id: str, member: str) -> int:
        """Return how many messages agents of a member have read."""
        reader = self._redis.hget(run_key("mail", run_id), f"child {member}")
        read = reader and self._redis.hget(run_key("state", reader), "messages_read")
        return int(read or 0)

    def messages(self, run_id: str, member: str, first: int) -> list[dict[str, Any]]:
        """Return the stored messages for a member from index `first` on (from 0)."""
        mail = run_key("mail", run_id)
        sent = int(self._redis.hget(mail, f"sent {member}") or 0)
        names = [f"message {member} {number}" for number in range(first, sent)]
        return [json.loads(text) for text in self._redis.hmget(mail, names)] if names else []

    def ended(self, run_id: str, members: Sequence[Peer]) -> set[Peer]:
        """Return those of the members that have ended."""
        visits = [VisitId(each.visit) for each in members]
        map_visit = visits[0].map_visit
        if map_visit is None:
            names = [visit.node for visit in visits]
            found = self._redis.hmget(run_key("staged", run_id), names)
        else:
            # Each item that has ended has its time here, which is shorter than its result.
            names = [f"ms:{visit.item}" for visit in visits]
            found = self._redis.hmget(run_key("map", f"{run_id} {map_visit}"), names)
        return {each for each, done in zip(members, found, strict=True) if done is not None}
