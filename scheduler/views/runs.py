"""Lists of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.model import RunRow, Status
from sleipnir.scheduler.store.people.saved_views import SavedViews
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.store.queries.indexes import Page
from sleipnir.scheduler.store.queries.lists import ChildRows
from sleipnir.scheduler.store.queries.sessions import SessionRow
from sleipnir.scheduler.views.documents import left_out, row_document
from sleipnir.scheduler.views.pages import page_fields, searched_fields
from sleipnir.scheduler.views.waits import waits_of

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.views.types import records as types
    from sleipnir.scheduler.views.typical_runs import TypicalRuns

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
    client: Client, wanted: RunFilter, *, limit: int, cursor: str | None = None
) -> types.RunPageDocument:
    """Return a page of runs, newest first.

    Raises:
        BadCursor: the cursor is not one of a list of runs.
    """
    page = client.queries.list_runs(wanted, limit, cursor)
    now_ms, waits = client.queries.now_ms(), waits_of(client, page.entries)
    rows = [
        row_document(row, now_ms=now_ms, waits_for=waits.get(row.run_id)) for row in page.entries
    ]
    return {"runs": rows, **_page_fields(page)}


def run_trees(
    client: Client, wanted: RunFilter, *, limit: int, cursor: str | None = None
) -> types.RunTreesDocument:
    """Return the page of `runs_page` with each run's child runs, at any depth; raises as it does"""
    page = client.queries.list_runs(wanted, limit, cursor)
    trees = read_children(client, [row.run_id for row in page.entries])
    everything = [*page.entries, *(row for found in trees.values() for row in found.rows)]
    now_ms, waits = client.queries.now_ms(), waits_of(client, everything)

    def tree(row: RunRow) -> types.RunTreeDocument:
        found = trees.get(row.run_id, NO_CHILDREN)
        return {
            **row_document(row, now_ms=now_ms, waits_for=waits.get(row.run_id)),
            "children": [tree(child) for child in found.rows],
            "more_children": left_out(found),
        }

    return {"runs": [tree(row) for row in page.entries], **_page_fields(page)}


def _page_fields(page: Page[RunRow]) -> types.SearchedRunPageDocument:
    searched = page.searched
    return {**page_fields(page), "searched": {**searched_fields(page), "runs": searched.entries}}


def runs_overview(
    client: Client,
    wanted: RunFilter,
    typical: TypicalRuns,
    *,
    limit: int,
    cursor: str | None = None,
) -> types.RunListDocument:
    """Return the page with what a person looks for, and the number of runs by status.

    `counts` counts the runs that match apart from their status, as far as indexes know it; else all
    runs. `open` are queued or running.

    Raises:
        BadCursor: the cursor is not one of a list of runs.
    """
    page = runs_page(client, wanted, limit=limit, cursor=cursor)
    counts, are_all = client.queries.counts_by_status(wanted)
    runs = _listed(client, page["runs"], typical)
    return {**page, "runs": runs, "counts": dict(counts), "counts_all": are_all}


def saved_views_document(client: Client, user: str) -> list[types.ViewDocument]:
    """Return the lists of runs that a person has named, by name."""
    return [
        {"name": name, "query": query, "path": f"/runs?{query}"}
        for name, query in SavedViews(client.store.client).of(user).items()
    ]


def listed_documents(
    client: Client, rows: Sequence[RunRow], typical: TypicalRuns
) -> list[types.ListedRunDocument]:
    """Return runs with what a person looks for, as in a list."""
    now_ms, waits = client.queries.now_ms(), waits_of(client, rows)
    documents = [row_document(row, now_ms=now_ms, waits_for=waits.get(row.run_id)) for row in rows]
    return _listed(client, documents, typical)


def _listed(
    client: Client, documents: Sequence[types.RunRowDocument], typical: TypicalRuns
) -> list[types.ListedRunDocument]:
    ended = [run["run_id"] for run in documents if run["status"] in WITH_REASON]
    reasons = dict(zip(ended, client.queries.errors(ended), strict=True))
    run_ids = [run["run_id"] for run in documents]
    children, prompts = client.queries.child_counts(run_ids), client.queries.prompts(run_ids)
    runs: list[types.ListedRunDocument] = []
    unusual = typical.excesses(documents)
    for run, excess, count, prompt in zip(documents, unusual, children, prompts, strict=True):
        reason = reasons.get(run["run_id"])
        runs.append(
            {
                **run,
                "unusual": excess,
                "error": None if reason is None else reason.to_json(),
                "child_runs": count,
                "prompt": prompt.strip()[:_MOST_OF_PROMPT],
            }
        )
    return runs


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


def session_document(row: SessionRow, now_ms: int) -> types.SessionDocument:
    """Return a session with the age and status of its last run."""
    return {
        "agent": row.agent,
        "session": row.name,
        "run_id": row.run.run_id,
        "status": str(row.run.status),
        "age_s": (now_ms - row.run.created_at) / 1000,
    }
