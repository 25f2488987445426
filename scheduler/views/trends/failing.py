"""What fails at present: the failures of the last day by agent and cause, with their hours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Failure, RunRow, Status
from sleipnir.scheduler.runs.reasons import cause_of
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.figures.by_time import HOUR_MS, HOURS_OF_A_DAY
from sleipnir.scheduler.store.queries.filters import RunFilter

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import trends as types

_BADLY = frozenset({Status.FAILED, Status.TIMED_OUT})
# The newest failures that are grouped.
MOST_FAILURES = 300


@dataclass(frozen=True, slots=True)
class _Failed:
    row: RunRow
    reason: Failure


def failing_document(
    client: Client, now_ms: int, most: int, agents: tuple[str, ...] = ()
) -> types.FailingDocument:
    """Return the failures of the last day by agent and cause, the most frequent first.

    Args:
        most: how many groups are told.
        agents: only these; none: all.
    """
    since_ms = now_ms - HOURS_OF_A_DAY * HOUR_MS
    wanted = RunFilter(statuses=_BADLY, agents=agents, since_ms=since_ms)
    page = client.queries.list_runs(wanted, MOST_FAILURES)
    reasons = client.queries.errors([row.run_id for row in page.entries])
    groups: dict[tuple[str, str], list[_Failed]] = {}
    for row, reason in zip(page.entries, reasons, strict=True):
        if reason is not None:
            cause = cause_of(reason.code, reason.node, reason.message)
            groups.setdefault((row.agent, cause), []).append(_Failed(row, reason))
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    return {
        "groups": [
            _group_document(cause, members, now_ms) for (_, cause), members in ordered[:most]
        ],
        "grouped": len(page.entries),
        "failed": page.total,
    }


def _group_document(
    cause: str, members: Sequence[_Failed], now_ms: int
) -> types.FailingGroupDocument:
    newest = members[0]
    instants = [failed.row.ended_at or failed.row.created_at for failed in members]
    hours = [0] * HOURS_OF_A_DAY
    for at in instants:
        hours[max(0, HOURS_OF_A_DAY - 1 - (now_ms // HOUR_MS - at // HOUR_MS))] += 1
    return {
        "agent": newest.row.agent,
        "cause": cause,
        "count": len(members),
        "error": newest.reason.to_json(),
        "run_id": newest.row.run_id,
        "first_at": to_rfc3339(min(instants)),
        "newest_at": to_rfc3339(max(instants)),
        "by_hour": hours,
    }
