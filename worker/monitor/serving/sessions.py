"""Sessions of served agents: which run a conversation is at."""

from __future__ import annotations

from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.conversation.sessions import require_owner
from sleipnir.scheduler.runs.model import FINAL, Run, Status
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.submission import SESSION_LABEL

_OPEN = frozenset(Status) - FINAL
# Open runs of one name and agent, of all users.
_LOOKED_AT = 50


def open_run(client: Client, agent: str, name: str, user: str) -> Run | None:
    """Return the run of a session that has not ended; None if there is none.

    Raises:
        SubmissionRefused: the name is invalid, or the session is somebody else's.
    """
    session = client.session(agent, name)
    require_owner(session, user)
    if session.run is not None:
        return None if session.run.is_final else session.run
    wanted = RunFilter(statuses=_OPEN, agents=(agent,), labels=((SESSION_LABEL, name),))
    found = map(
        client.run, (row.run_id for row in client.queries.list_runs(wanted, _LOOKED_AT).entries)
    )
    return next((run for run in found if run.context.user == user), None)
