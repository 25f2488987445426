"""Removes finished runs before the end of their retention time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import FINAL, RunRow, Status
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.run_store import RunStore

if TYPE_CHECKING:
    from sleipnir.scheduler.embedded.acceptances import Acceptances
    from sleipnir.scheduler.store.queries.filters import RunFilter

# Per selection; with more runs, select again after removing these.
MOST_SELECTED = 10_000
_PAGE = 200
_AT_ONCE = 100


class RemovingClient(Protocol):
    """What this module needs of a client."""

    store: RunStore
    queries: RunQueries
    acceptances: Acceptances | None


@dataclass(frozen=True, slots=True)
class RemovableRuns:
    """Finished runs selected for removal."""

    run_ids: tuple[str, ...]  # newest first
    counts: Mapping[tuple[Status, str], int]  # by status and agent
    ended_before_ms: int | None
    is_whole: bool  # False: there are more


def select(queries: RunQueries, wanted: RunFilter) -> RemovableRuns:
    """Return matching finished runs, `MOST_SELECTED` at most; `until_ms` bounds their ends."""
    # Runs that ended before an instant were created before it.
    wanted = replace(wanted, statuses=wanted.statuses or FINAL, children=False)
    run_ids: list[str] = []
    counts: Counter[tuple[Status, str]] = Counter()
    cursor = None
    while True:
        page = queries.list_runs(wanted, min(_PAGE, MOST_SELECTED - len(run_ids)), cursor)
        for run in page.entries:
            if _is_over(run, wanted.until_ms):
                run_ids.append(run.run_id)
                counts[run.status, run.agent] += 1
        cursor = page.next
        if cursor is None or len(run_ids) >= MOST_SELECTED:
            return RemovableRuns(tuple(run_ids), counts, wanted.until_ms, cursor is None)


def remove(client: RemovingClient, runs: RemovableRuns) -> Generator[bool, None, None]:
    """Remove runs with their child runs one by one; yield for each whether it was removed.

    Runs continued meanwhile stay, and so do those not reached when the iteration stops.

    Raises:
        ArchiveFailed: a run is removed, but its object in the archive could not be.
    """
    for first in range(0, len(runs.run_ids), _AT_ONCE):
        some = client.queries.rows(runs.run_ids[first : first + _AT_ONCE])
        removed: list[str] = []
        batches: set[str] = set()
        try:
            for run in some:
                if run is None or not _is_over(run, runs.ended_before_ms):
                    yield False
                    continue
                is_removed = _remove(client, run.run_id)
                if is_removed:
                    removed.append(run.run_id)
                    batches.update(filter(None, [run.batch]))
                yield is_removed
        finally:
            _forget(client, removed)
            for batch in batches:
                if not any(client.queries.batch_pages(batch)):
                    client.store.batches.remove_files(batch)


def _is_over(run: RunRow, ended_before_ms: int | None) -> bool:
    if run.status not in FINAL:
        return False
    return ended_before_ms is None or (run.ended_at or 0) < ended_before_ms


def _remove(client: RemovingClient, run_id: str) -> bool:
    # The run first: until then it may be retried, which continues its children.
    children = client.queries.child_ids(run_id)
    archived = {} if client.store.archived is None else client.store.archived.places([run_id])
    if not client.store.runs.purge(run_id):
        return False
    for child in children:
        _remove(client, child)
    if client.store.archive is not None:
        for at in archived.values():
            client.store.archive.remove(run_id, at.place.day)
    return True


def _forget(client: RemovingClient, run_ids: Sequence[str]) -> None:
    """Keep the embedded engine from reporting removed runs as lost."""
    if client.acceptances is not None and run_ids:
        client.acceptances.forget(run_ids)
