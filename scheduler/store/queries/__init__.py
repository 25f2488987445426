"""Read-only queries of runs, lists, histories, narrations and questions."""

from __future__ import annotations

from sleipnir.scheduler.runs.ids import ALL_PARTITIONS
from sleipnir.scheduler.store.keys import HOOKS, TRIGGERS, schedules_key
from sleipnir.scheduler.store.queries.batches import BatchQueries
from sleipnir.scheduler.store.queries.engine import EngineQueries
from sleipnir.scheduler.store.queries.lists import ListQueries
from sleipnir.scheduler.store.queries.maps import MapQueries
from sleipnir.scheduler.store.queries.narration import NarrationQueries
from sleipnir.scheduler.store.queries.questions import QuestionQueries
from sleipnir.scheduler.store.queries.sessions import SessionQueries


class RunQueries(
    ListQueries,
    BatchQueries,
    QuestionQueries,
    MapQueries,
    NarrationQueries,
    SessionQueries,
    EngineQueries,
):
    """All queries of the run store."""

    def hook_names(self) -> list[str]:
        """Return the names of all hooks, sorted."""
        return sorted(self._redis.hkeys(HOOKS))

    def trigger_names(self) -> list[str]:
        """Return the names of all triggers, sorted."""
        return sorted(self._redis.hkeys(TRIGGERS))

    def schedule_names(self) -> list[str]:
        """Return the names of all schedules, sorted."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.zrange(schedules_key(partition), 0, -1)
            return sorted(name for names in pipe.execute() for name in names)

    def has_live_scheduler(self) -> bool:
        """Return whether a scheduler is running, and so most likely a worker."""
        return bool(self._redis.exists(f"{ALL_PARTITIONS[0]}:owner"))
