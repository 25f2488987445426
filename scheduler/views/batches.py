"""Documents of batches: single ones, and the list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.model import Failure, Status
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries.batches import BatchQueries, BatchRow
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.documents import Document
from sleipnir.scheduler.views.grouping import FailureGroup, fixed_part, grouped
from sleipnir.scheduler.views.pages import page_document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

# Failed runs whose reasons are read at most.
_MOST_FAILED = 500
# The counts of a batch's runs; `open` are queued or running.
STATUSES = ("succeeded", "open", "waiting", "failed", "cancelled", "timed_out")


def batches_page(queries: BatchQueries, *, limit: int, cursor: str | None = None) -> Document:
    """Return a page of batches, the most recently active first.

    Raises:
        BadCursor: the cursor does not belong to a list of batches.
    """
    page, now_ms = queries.list_batches(limit, cursor), queries.now_ms()
    return page_document(
        page, "batches", [batch_document(row, now_ms=now_ms) for row in page.entries]
    )


def batch_page(queries: BatchQueries, name: str) -> Document | None:
    """Return a batch's document; None if there is none of that name."""
    (row,) = queries.batch_rows([name])
    return None if row is None else batch_document(row, now_ms=queries.now_ms())


def batch_report(client: Client, name: str) -> Document | None:
    """Return it with `errors`: the failures of its newest failed runs, grouped by pattern."""
    document = batch_page(client.queries, name)
    if document is None:
        return None
    wanted = RunFilter(statuses=frozenset({Status.FAILED}), batch=name)
    found = client.queries.list_runs(wanted, _MOST_FAILED).entries
    reasons = client.queries.errors([run.run_id for run in found])
    failures = [(run.run_id, why) for run, why in zip(found, reasons, strict=True) if why]
    groups = grouped(
        (place, f"{why.code} {why.node or ''} {why.message}")
        for place, (_, why) in enumerate(failures)
    )
    return {
        **document,
        "errors_of": len(found),
        "errors": [_group_document(group, *failures[group.first]) for group in groups],
    }


def _group_document(group: FailureGroup, run_id: str, why: Failure) -> Document:
    return {
        "count": group.count,
        "code": why.code,
        "node": why.node,
        "example": why.message,
        "text": fixed_part(why.message),
        "run_id": run_id,
    }


def batch_document(row: BatchRow, *, now_ms: int) -> Document:
    """Return the document of a batch; usage counts only ended runs."""
    active = row.last_activity
    return {
        "batch": row.name,
        "agent": row.agent,
        "lines": row.lines,
        "runs": row.runs,
        **{status: getattr(row, status) for status in STATUSES},
        "usage": {"total_tokens": row.tokens, "cost_usd": row.cost_usd},
        "last_activity": None if active is None else to_rfc3339(active),
        "age_s": None if active is None else (now_ms - active) / 1000,
    }
