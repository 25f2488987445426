"""The part of the Python client for sessions of normal agents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import NotOver, RunGone, SessionInUse, SubmissionRefused
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.run_store import RunStore

with lazy_imports():
    from sleipnir.graphs import normal_agent
    from sleipnir.scheduler.runs.conversation import memory, sessions
    from sleipnir.scheduler.store.queries import sessions as session_queries

if TYPE_CHECKING:
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.embedded.acceptances import Acceptances
    from sleipnir.scheduler.runs.conversation.sessions import Session
    from sleipnir.scheduler.runs.submit import Request
    from sleipnir.scheduler.store.queries.sessions import SessionRow


class SessionClient(Protocol):
    """What this part needs of the rest of a client."""

    store: RunStore
    queries: RunQueries
    acceptances: Acceptances | None

    def session(self, agent: str, name: str) -> Session: ...

    def _rewind(self, session: Session, before: str | None) -> None: ...


class Sessions:
    """Finds, lists and removes sessions."""

    def session_for(self: SessionClient, agent: PreparedAgent, request: Request) -> Session | None:
        """Return the session that a run of an agent continues; None for none.

        Raises:
            SubmissionRefused: the agent cannot have sessions, the name is invalid, or the session
                is somebody else's.
        """
        if request.session == sessions.TEMPORARY:
            return None
        config = normal_agent.config_of(agent.graph)
        if config is None:
            if request.session is not None:
                raise SubmissionRefused(
                    f"sessions are for normal agents, and '{agent.name}' is a graph agent: "
                    "its runs are independent; leave out --session"
                )
            return None
        if request.batch is not None:
            if request.session is not None:
                raise SubmissionRefused("the runs of a batch are independent; leave out 'session'")
            return None
        name = request.session or config.agent_session or self.store.settings.agent_session
        if name is None or name == sessions.TEMPORARY:
            return None
        found = self.session(agent.name, name)
        if request.continues is not None and found.last_run is None:
            before = self.session(agent.name, request.continues)
            found = replace(found, run=before.run, state=before.state)
        if self.acceptances is None:  # the embedded engine has no other users
            sessions.require_owner(found, request.user)
        return found

    def session(self: SessionClient, agent: str, name: str) -> Session:
        """Return a session as it is now; without a run if it does not exist yet.

        Raises:
            SubmissionRefused: the name is invalid.
        """
        sessions.require_session_name(name)
        return session_queries.read_session(self.queries, agent, name)

    def sessions(self: SessionClient, agent: str | None = None) -> list[SessionRow]:
        """Return all sessions, or those of one agent, the most recently used first."""
        rows = self.queries.list_sessions()
        return [row for row in rows if agent in (None, row.agent)]

    def undo_message(self: SessionClient, agent: str, name: str, before: str | None = None) -> str:
        """Take the last message and its answer out of a session; return the message.

        The run of the message stays, and so does what its tools did.

        Args:
            before: the session whose memory this one began with, if it is kept: without a message
                of its own this session does not exist, and the last message is that one's.

        Raises:
            SessionInUse: that run has not ended.
            SubmissionRefused: there is no message, or the one before it is not kept.
        """
        while True:
            found = self.session(agent, name)
            if found.last_run is None and before is not None:
                found = self.session(agent, before)
            if found.last_run is None:
                raise SubmissionRefused("nothing to undo")
            require_idle(found)
            try:
                self._rewind(found, None if found.name == before else before)
            except NotOver:
                continue  # it was continued meanwhile
            except RunGone as error:
                raise SubmissionRefused(
                    "what was said before the last message is not kept under this name: "
                    f"run {found.last_run} stays in the conversation"
                ) from error
            return str((found.state or {}).get(memory.PROMPT, ""))

    def _rewind(self: SessionClient, session: Session, before: str | None) -> None:
        runs, last = self.store.runs, session.last_run or ""
        continued = self.queries.continued_run(last)
        origin = None if before is None else self.session(session.agent, before).last_run
        if continued is not None and continued == origin:
            runs.forget_session(session.place, last)
        else:
            runs.rewind_session(session.place, last)

    def remove_session(self: SessionClient, agent: str, name: str) -> None:
        """Remove a session; its runs stay for their retention time.

        Raises:
            SessionInUse: its last run has not ended.
            SubmissionRefused: there is none of that name.
        """
        while True:
            found = self.session(agent, name)
            if found.last_run is None:
                raise SubmissionRefused(
                    f"agent '{agent}' has no session '{name}'; `sleipnir sessions` lists them"
                )
            require_idle(found)
            try:
                return self.store.runs.forget_session(found.place, found.last_run)
            except NotOver:
                continue  # it was continued meanwhile


def require_idle(session: Session) -> None:
    """Check that the last run of a session has ended.

    Raises:
        SessionInUse: it has not.
    """
    if session.run is not None and not session.run.is_final:
        raise SessionInUse(session.name, session.run.run_id, session.run.status)
