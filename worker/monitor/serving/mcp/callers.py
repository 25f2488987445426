"""Who calls a tool, and what the audit log says of it."""

from __future__ import annotations

from contextlib import suppress

from sleipnir.records import dataclass
from sleipnir.scheduler.client import Client
from sleipnir.scheduler.runs.model import Question
from sleipnir.scheduler.store.audit.log import DONE, Act, AuditLog
from sleipnir.scheduler.store.errors import RedisError

VIA = "mcp"
CALLER = "sleipnir.caller"  # in the scope of a request


@dataclass(frozen=True, slots=True)
class ToolCaller:
    """The user whom a client acts for."""

    name: str
    address: str = ""
    # Of a request that may be sent again: the session of its client.
    session: str | None = None
    key: str | None = None  # of this request, if its client named one
    # The trace in which it calls.
    traceparent: str = ""
    tracestate: str = ""

    def key_of(self, request_id: object) -> str | None:
        """Return what makes a call idempotent, None if nothing does."""
        if self.key is not None:
            return self.key
        return None if self.session is None else f"mcp {self.session} {request_id!r}"

    def note(
        self,
        client: Client,
        act: str,
        target: str,
        *,
        outcome: str = DONE,
        detail: str = "",
        question: Question | None = None,
    ) -> None:
        """Record an act; a full Redis must not prevent it."""
        done = Act(self.name, "operate", VIA, act, target, outcome, self.address, detail)
        if question is not None:
            done = done.to_question(question)
        with suppress(RedisError):
            AuditLog(client.store.client).add(done)
