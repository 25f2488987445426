"""Documents of batches: single ones, and the list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from sleipnir.scheduler.errors import ArchiveFailed
from sleipnir.scheduler.runs.model import Failure, RunRow, Status
from sleipnir.scheduler.runs.reasons import fixed_part
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries.batches import BatchQueries, BatchRow
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.documents import failure_documents
from sleipnir.scheduler.views.economy import economy_of_batch
from sleipnir.scheduler.views.grouping import OneFailure, by_cause
from sleipnir.scheduler.views.limits import limits_document
from sleipnir.scheduler.views.pages import page_fields, searched_fields

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.documents import NodeFailureDocument
    from sleipnir.scheduler.store.queries import RunQueries
    from sleipnir.scheduler.views.batch_spread import BatchSpreads
    from sleipnir.scheduler.views.types import batches as types

# Failed runs whose reasons are read at most.
_MOST_FAILED = 500
# Of each kind of failure: runs that are named, and equal parts of the time in which any failed.
_EXAMPLES = 3
_MOMENTS = 24
# Ends that tell how fast a batch is, even if it takes long for so many.
_FEWEST_TIMED = 10
# Batches of a page of which that is told.
_MOST_MOVING = 10
_MINUTE_MS = 60_000
# The counts of a batch's runs; `open` are queued or running.
STATUSES: Final = ("succeeded", "open", "waiting", "failed", "cancelled", "timed_out")


def batches_page(
    queries: BatchQueries, *, limit: int, cursor: str | None = None
) -> types.BatchPageDocument:
    """Return a page of batches, the most recently active first.

    Raises:
        BadCursor: the cursor does not belong to a list of batches.
    """
    page, now_ms = queries.list_batches(limit, cursor), queries.now_ms()
    return {
        "batches": [batch_document(row, now_ms=now_ms) for row in page.entries],
        **page_fields(page),
        "searched": {**searched_fields(page), "batches": page.searched.entries},
    }


def batch_page(queries: BatchQueries, name: str) -> types.BatchDocument | None:
    """Return a batch's document; None if there is none of that name."""
    (row,) = queries.batch_rows([name])
    return None if row is None else batch_document(row, now_ms=queries.now_ms())


def batches_overview(
    client: Client, *, limit: int, cursor: str | None = None
) -> types.BatchListDocument:
    """A page of batches as `batches_page`, each with its progress as `progress_document`.

    Raises:
        BadCursor: the cursor is not one of a list of batches.
    """
    document = batches_page(client.queries, limit=limit, cursor=cursor)
    moving = [batch["batch"] for batch in document["batches"] if batch["open"]][:_MOST_MOVING]
    now_ms = client.queries.now_ms()
    batches: list[types.BatchProgressDocument] = [
        {**batch, **progress_document(client.queries, batch, now_ms, read=batch["batch"] in moving)}
        for batch in document["batches"]
    ]
    return {**document, "batches": batches}


def progress_document(
    queries: RunQueries, batch: types.BatchDocument, now_ms: int, *, read: bool = True
) -> types.BatchRateDocument:
    """How fast runs of a batch end, when the last one will have, and what all will have cost.

    `rate_per_minute` is that of the last minute, or of the last ten ends if there were fewer in it;
    null if no run is open. Runs that wait for a person are not part of `eta_s`, which is null, like
    `projected_usd`, as long as it cannot be told.

    Args:
        read: whether to read when runs ended; without that the rate is not known.
    """
    total = max(batch["runs"], batch["lines"] or batch["runs"] + batch["removed"])
    badly = batch["failed"] + batch["cancelled"] + batch["timed_out"]
    ended = min(total, batch["removed"] + batch["succeeded"] + badly)
    left = total - ended
    rate = _rate(queries.last_ends(batch["batch"]), now_ms) if read and batch["open"] else None
    cost = batch["usage"]["cost_usd"]
    return {
        "total": total,
        "rate_per_minute": rate,
        "eta_s": 60 * (left - batch["waiting"]) / rate if rate else None,
        "projected_usd": cost / ended * total if cost is not None and ended else None,
    }


def _rate(ends: Sequence[int], now_ms: int) -> float:
    """Return how many runs end in a minute, given the last ends, newest first."""
    lately = sum(at > now_ms - _MINUTE_MS for at in ends)
    counted = ends[: max(lately, _FEWEST_TIMED)]
    if len(counted) < 2:
        return sum(_MINUTE_MS / max(_MINUTE_MS, now_ms - at) for at in counted)
    return (len(counted) - 1) * _MINUTE_MS / max(1, now_ms - counted[-1])


def batch_report(
    client: Client, spreads: BatchSpreads, name: str
) -> types.BatchReportDocument | None:
    """Return a batch with how it proceeds; None if there is none of that name."""
    document = batch_page(client.queries, name)
    if document is None:
        return None
    budgets = limits_document(client)["budgets"]
    return {
        **document,
        **progress_document(client.queries, document, client.queries.now_ms()),
        "spread": spreads.of(document),
        "economy": economy_of_batch(client, name),
        "budget": next((each for each in budgets if each["name"] == f"batch:{name}"), None),
    }


def batch_errors(client: Client, name: str) -> types.BatchErrorsDocument:
    """Return why the newest failed runs of a batch failed, by kind, the most frequent first."""
    wanted = RunFilter(statuses=frozenset({Status.FAILED}), batch=name)
    found = client.queries.list_runs(wanted, _MOST_FAILED).entries
    reasons = client.queries.errors([run.run_id for run in found])
    failures = [(run, why) for run, why in zip(found, reasons, strict=True) if why]
    groups = by_cause(
        OneFailure(index, why.code, why.node, why.message)
        for index, (_, why) in enumerate(failures)
    )
    times = [run.ended_at or run.created_at for run, _ in failures]
    return {
        "errors_of": len(found),
        "errors": [
            _group_document(
                [failures[member.place] for member in members],
                cause,
                _cause(client, failures[members[0].place][0]),
                (min(times), max(times)),
            )
            for cause, members in sorted(groups.items(), key=lambda group: -len(group[1]))
        ],
    }


def _cause(client: Client, row: RunRow) -> NodeFailureDocument | None:
    """Return the first node failure before a run failed; it may have caused that."""
    if not row.failed_nodes:
        return None
    try:
        (run,) = client.queries.runs([row.run_id])
        earlier = [] if run is None else failure_documents(client.queries.failures(run))
    except ArchiveFailed:  # the page has much else to say
        return None
    return earlier[0] if earlier else None


def _group_document(
    alike: Sequence[tuple[RunRow, Failure]],
    cause: str,
    caused_by: NodeFailureDocument | None,
    bounds_ms: tuple[int, int],
) -> types.BatchErrorDocument:
    """Failures of one kind; those of a batch are in the order of their runs, the newest first."""
    run, why = alike[0]
    times = [each.ended_at or each.created_at for each, _ in alike]
    since, until = bounds_ms
    shares = Counter(_MOMENTS * (at - since) // (until - since + 1) for at in times)
    return {
        "count": len(alike),
        "code": why.code,
        "node": why.node,
        "example": why.message,
        "text": fixed_part(why.message),
        "cause": cause,
        "caused_by": caused_by,
        "run_id": run.run_id,
        "run_ids": [each.run_id for each, _ in alike[:_EXAMPLES]],
        "by_time": [shares[moment] for moment in range(_MOMENTS)],
        "first_at": to_rfc3339(min(times)),
        "newest_at": to_rfc3339(max(times)),
    }


def batch_document(row: BatchRow, *, now_ms: int) -> types.BatchDocument:
    """Return the document of a batch; usage counts only ended runs."""
    active = row.last_activity
    return {
        "batch": row.name,
        "agent": row.agent,
        "lines": row.lines,
        "runs": row.runs,
        "succeeded": row.succeeded,
        "open": row.open,
        "waiting": row.waiting,
        "failed": row.failed,
        "cancelled": row.cancelled,
        "timed_out": row.timed_out,
        "removed": row.removed,
        "usage": {"total_tokens": row.tokens, "cost_usd": row.cost_usd},
        "last_activity": None if active is None else to_rfc3339(active),
        "age_s": None if active is None else (now_ms - active) / 1000,
    }
