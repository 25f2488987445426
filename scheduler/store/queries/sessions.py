"""Queries of the sessions of normal agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.conversation.sessions import Session, place_of_session
from sleipnir.scheduler.runs.ids import ALL_PARTITIONS, partition_of_session
from sleipnir.scheduler.runs.model import RunRow
from sleipnir.scheduler.store.keys import run_key, sessions_key
from sleipnir.scheduler.store.queries.records import RecordQueries

if TYPE_CHECKING:
    from sleipnir.scheduler.store.queries import RunQueries


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session in a list."""

    agent: str
    name: str
    run: RunRow  # its last run


class SessionQueries(RecordQueries):
    """Queries of sessions."""

    def last_run_of_session(self, session: str) -> str | None:
        """Return the id of the last run of `<agent>/<name>`; None if there is no such session."""
        found = self._redis.hget(sessions_key(partition_of_session(session)), session)
        return None if found is None else str(found)

    def continued_run(self, run_id: str) -> str | None:
        """Return the run whose memory a run of a session began with; None for an empty memory."""
        return self._redis.hget(run_key("run", run_id), "continues") or None

    def list_sessions(self) -> list[SessionRow]:
        """Return all sessions, the most recently used first."""
        with self._redis.pipeline(transaction=False) as pipe:
            for partition in ALL_PARTITIONS:
                pipe.hgetall(sessions_key(partition))
            found = {name: run_id for part in pipe.execute() for name, run_id in part.items()}
        places = [session.rpartition("/") for session in found]
        runs = self.rows(list(found.values()))
        rows = [
            SessionRow(agent, name, run)
            for (agent, _, name), run in zip(places, runs, strict=True)
            if run is not None
        ]
        return sorted(rows, key=lambda row: row.run.created_at, reverse=True)


def read_session(queries: RunQueries, agent: str, name: str) -> Session:
    """Return a session as it is now; without a run if it does not exist yet."""
    last = queries.last_run_of_session(place_of_session(agent, name))
    if last is None:
        return Session(agent, name)
    (run,) = queries.runs([last])
    return Session(agent, name, last, run, None if run is None else queries.state(last))
