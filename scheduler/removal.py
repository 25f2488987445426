"""Finished runs that are removed before their retention is over: which they are, and how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import FINAL, Run, Status
from sleipnir.scheduler.store.queries import RunQueries
from sleipnir.scheduler.store.run_store import RunStore

if TYPE_CHECKING:
    from sleipnir.scheduler.embedded.acceptances import Acceptances
    from sleipnir.scheduler.store.queries.filters import RunFilter

# Of one selection; whoever has more selects again once these are gone.
MOST_SELECTED = 10_000
_PAGE = 200
_AT_ONCE = 100


class RemovingClient(Protocol):
    """What of a client is needed here."""

    store: RunStore
    queries: RunQueries
    acceptances: Acceptances | None


@dataclass(frozen=True, slots=True)
class RemovableRuns:
    """Finished runs that may be removed together."""

    run_ids: tuple[str, ...]  # newest first
    counts: Mapping[tuple[Status, str], int]  # by status and agent
    ended_before_ms: int | None
    is_whole: bool  # False: there are more of them


def select(queries: RunQueries, wanted: RunFilter) -> RemovableRuns:
    """The finished runs wanted, `MOST_SELECTED` at most; `until_ms` is of their ends here."""
    # What ended before an instant was created before it.
    wanted = replace(wanted, statuses=wanted.statuses or FINAL, children=False)
    run_ids: list[str] = []
    counts: Counter[tuple[Status, str]] = Counter()
    cursor = None
    while True:
        page = queries.list_runs(wanted, min(_PAGE, MOST_SELECTED - len(run_ids)), cursor)
        for run in queries.runs([row.run_id for row in page.entries]):
            if run is not None and _is_over(run, wanted.until_ms):
                run_ids.append(run.run_id)
                counts[run.status, run.agent] += 1
        cursor = page.next
        if cursor is None or len(run_ids) >= MOST_SELECTED:
            return RemovableRuns(tuple(run_ids), counts, wanted.until_ms, cursor is None)


def remove(client: RemovingClient, runs: RemovableRuns) -> Generator[bool, None, None]:
    """Remove runs with their child runs, one after the other; of each, whether it was removed.

    One that goes on by now stays. What is not asked for any more stays, too.
    """
    for first in range(0, len(runs.run_ids), _AT_ONCE):
        some = client.queries.runs(runs.run_ids[first : first + _AT_ONCE])
        removed: list[str] = []
        try:
            for run in some:
                if run is None or not _is_over(run, runs.ended_before_ms):
                    yield False
                    continue
                is_removed = _remove(client, run)
                if is_removed:
                    removed.append(run.run_id)
                yield is_removed
        finally:
            _forget(client, removed)


def _is_over(run: Run, ended_before_ms: int | None) -> bool:
    if not run.is_final:
        return False
    return ended_before_ms is None or (run.ended_at or 0) < ended_before_ms


def _remove(client: RemovingClient, run: Run) -> bool:
    # The run goes first: until then it may be retried, which takes up its child runs.
    children = client.queries.children(run.run_id)
    if not client.store.runs.purge(run.run_id, run.digest):
        return False
    for child in children:
        _remove(client, child)
    return True


def _forget(client: RemovingClient, run_ids: Sequence[str]) -> None:
    """Have the embedded engine not take removed runs for lost ones."""
    if client.acceptances is not None and run_ids:
        client.acceptances.forget(run_ids)
