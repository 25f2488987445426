"""Documents of the audit log: all actions, and accepted answers."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

from sleipnir.scheduler.store.audit.log import DONE, AuditEntry, AuditFilter, AuditLog
from sleipnir.scheduler.store.clock import to_rfc3339

if TYPE_CHECKING:
    from sleipnir.scheduler.views.types import questions as types

_RUN_ID = re.compile("[0-9a-f]{16}")


def audit_document(
    log: AuditLog, wanted: AuditFilter, *, limit: int, cursor: str | None = None
) -> types.ActListDocument:
    """Return actions, newest first.

    Raises:
        BadCursor: the cursor is not one of this list.
    """
    page = log.newest(limit, cursor, wanted)
    return {"acts": [_act_document(entry) for entry in page.entries], "next": page.next}


def answers_document(
    log: AuditLog, *, who: str | None, run_id: str | None, limit: int, cursor: str | None = None
) -> types.AnswerListDocument:
    """Return accepted answers, newest first.

    Args:
        who: only answers of this person; `run_id`: only to questions of this run.

    Raises:
        BadCursor: the cursor is not one of this list.
    """
    wanted = AuditFilter(who, "answer", None if run_id is None else f"{run_id}/", DONE)
    page = log.newest(limit, cursor, wanted)
    return {"answers": [_answer_document(entry) for entry in page.entries], "next": page.next}


def _act_document(entry: AuditEntry) -> types.NotedActDocument:
    run_id = entry.act.target.partition("/")[0]
    act: types.ActDocument = cast("Any", asdict(entry.act))  # which has the same fields
    known = run_id if _RUN_ID.fullmatch(run_id) else None
    return {"at": to_rfc3339(entry.at), **act, "run_id": known}


def _answer_document(entry: AuditEntry) -> types.GivenAnswerDocument:
    run_id, _, visit = entry.act.target.partition("/")
    return {
        "at": to_rfc3339(entry.at),
        "run_id": run_id,
        "visit": visit,
        "agent": entry.act.agent,
        "node": entry.act.node or visit.partition("/")[2],
        "question": entry.act.question,
        "answer": entry.act.detail,
        "by": entry.act.who,
        "via": entry.act.via,
        "waited_s": entry.act.waited_s,
        "call": entry.act.call,
    }
