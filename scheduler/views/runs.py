"""Lists of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.model import RunRow, Status
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.store.queries.lists import ChildRows
from sleipnir.scheduler.store.queries.sessions import SessionRow
from sleipnir.scheduler.views.documents import Document, left_out, row_document
from sleipnir.scheduler.views.pages import page_document
from sleipnir.scheduler.views.waits import waits_of

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client

# The most child runs shown per run; the others are only counted.
MOST_CHILDREN = 20
# The most child runs shown per page, roughly.
_MOST_DESCENDANTS = 1_000
# The most omitted child runs per level that are counted by status, roughly.
_MOST_COUNTED = 5_000
# Characters of a prompt in a list.
_MOST_OF_PROMPT = 200
# Statuses of runs whose record has a reason.
WITH_REASON = frozenset({Status.FAILED, Status.CANCELLED, Status.TIMED_OUT})


def runs_page(
    client: Client,
    wanted: RunFilter,
    *,
    limit: int,
    cursor: str | None = None,
    tree: bool = False,
) -> Document:
    """Return a page of runs, newest first.

    Args:
        tree: add each run's `children`, at any depth, and `more_children`, the numbers of omitted
            ones by status or `uncounted`.

    Raises:
        BadCursor: the cursor is not one of a list of runs.
    """
    page = client.queries.list_runs(wanted, limit, cursor)
    trees = read_children(client, [row.run_id for row in page.entries]) if tree else {}
    everything = [*page.entries, *(row for found in trees.values() for row in found.rows)]
    now_ms, waits = client.queries.now_ms(), waits_of(client, everything)

    def document(row: RunRow) -> Document:
        fields = row_document(row, now_ms=now_ms, waits_for=waits.get(row.run_id))
        if not tree:
            return fields
        found = trees.get(row.run_id, NO_CHILDREN)
        return {
            **fields,
            "children": [document(child) for child in found.rows],
            "more_children": left_out(found),
        }

    return page_document(page, "runs", [document(row) for row in page.entries])


def runs_overview(
    client: Client, wanted: RunFilter, *, limit: int, cursor: str | None = None
) -> Document:
    """Return the page with each run's `error` and `prompt`, and the number of runs by status.

    `prompt` is the beginning of what it was submitted with, \"\" if that is very long.

    `counts` counts the runs that match apart from their status, as far as indexes know it; else all
    runs (`counts_all`). `open` are queued or running.

    Raises:
        BadCursor: the cursor is not one of a list of runs.
    """
    document = runs_page(client, wanted, limit=limit, cursor=cursor)
    ended = [run for run in document["runs"] if run["status"] in WITH_REASON]
    reasons = client.queries.errors([run["run_id"] for run in ended])
    errors = {
        run["run_id"]: None if reason is None else reason.to_json()
        for run, reason in zip(ended, reasons, strict=True)
    }
    run_ids = [run["run_id"] for run in document["runs"]]
    children, prompts = client.queries.child_counts(run_ids), client.queries.prompts(run_ids)
    for run, count, prompt in zip(document["runs"], children, prompts, strict=True):
        run["error"] = errors.get(run["run_id"])
        run["child_runs"] = count
        run["prompt"] = prompt.strip()[:_MOST_OF_PROMPT]
    counts, are_all = client.queries.counts_by_status(wanted)
    return {**document, "counts": dict(counts), "counts_all": are_all}


NO_CHILDREN = ChildRows((), {}, 0)


def read_children(client: Client, run_ids: Sequence[str]) -> dict[str, ChildRows]:
    """Return the child runs of runs by parent id, read level by level."""
    found: dict[str, ChildRows] = {}
    left = _MOST_DESCENDANTS
    while run_ids:
        most = min(MOST_CHILDREN, -(-left // len(run_ids))) if left > 0 else 0
        counted = _MOST_COUNTED // len(run_ids)
        children = client.queries.child_rows(run_ids, most=most, counted=counted)
        found |= dict(zip(run_ids, children, strict=True))
        run_ids = [row.run_id for rows in children for row in rows.rows]
        left -= len(run_ids)
    return found


def session_document(row: SessionRow, now_ms: int) -> Document:
    """Return a session with the age and status of its last run."""
    return {
        "agent": row.agent,
        "session": row.name,
        "run_id": row.run.run_id,
        "status": str(row.run.status),
        "age_s": (now_ms - row.run.created_at) / 1000,
    }
