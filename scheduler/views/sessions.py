"""Documents of sessions."""

from __future__ import annotations

from sleipnir.scheduler.store.queries.sessions import SessionRow
from sleipnir.scheduler.views.documents import Document


def session_document(row: SessionRow, now_ms: int) -> Document:
    """Return a session with the age and status of its last run."""
    return {
        "agent": row.agent,
        "session": row.name,
        "run_id": row.run.run_id,
        "status": str(row.run.status),
        "age_s": (now_ms - row.run.created_at) / 1000,
    }
