"""Many runs at once: selecting them, grouping them by cause, retrying them in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from time import monotonic
from typing import TYPE_CHECKING

from sleipnir.graphs.errors import GraphError
from sleipnir.records import dataclass
from sleipnir.scheduler.client.rerun.agents import CURRENT, current_reference
from sleipnir.scheduler.client.rerun.retry import RetryRequest, retry_run
from sleipnir.scheduler.errors import EngineUnreachable, SleipnirError
from sleipnir.scheduler.process.periodic import pause
from sleipnir.scheduler.runs.model import FINAL, Run, Status
from sleipnir.scheduler.runs.reasons import Reason, reason_of

if TYPE_CHECKING:
    from sleipnir.scheduler.client.preparation import PreparedAgent
    from sleipnir.scheduler.client.rerun.client import ClientCore
    from sleipnir.scheduler.store.queries import RunQueries
    from sleipnir.scheduler.store.queries.filters import RunFilter

# The statuses retried by default: all ends but success.
ENDED_BADLY = frozenset({Status.FAILED, Status.CANCELLED, Status.TIMED_OUT})
# The statuses cancelled by default.
NOT_OVER = frozenset(Status) - FINAL
# Per selection; with more runs, select again after acting on these.
MOST_SELECTED = 10_000
_PAGE = 200
# Retried runs are synced to disk this many at a time, and at about the rate of a batch.
_AT_ONCE = 50
_PER_SECOND = 100


@dataclass(frozen=True, slots=True)
class Cause:
    """Runs of an agent with the same status, and the same reason of failure."""

    status: Status
    agent: str
    reason: Reason | None  # None: they succeeded, or have not ended
    runs: int
    example: str  # the newest of them


@dataclass(frozen=True, slots=True)
class RunSelection:
    """Selected runs."""

    run_ids: tuple[str, ...] = ()  # newest first
    causes: tuple[Cause, ...] = ()  # the most frequent first
    is_whole: bool = True  # False: there are more


@dataclass(frozen=True, slots=True)
class Retried:
    """The result of one of many retries."""

    run_id: str
    refused: Exception | None = None  # why it was not retried


@dataclass(slots=True)
class _Collected:
    """Runs selected so far."""

    run_ids: list[str] = field(default_factory=list)
    causes: dict[tuple[str, str, str], Cause] = field(default_factory=dict)

    def add(self, run: Run) -> None:
        reason = reason_of(run.failure) if run.failure is not None else None
        key = (run.status, run.agent, reason.key if reason else "")
        cause = self.causes.get(key) or Cause(run.status, run.agent, reason, 0, run.run_id)
        self.causes[key] = replace(cause, runs=cause.runs + 1)
        self.run_ids.append(run.run_id)

    def selection(self, *, is_whole: bool) -> RunSelection:
        causes = sorted(self.causes.values(), key=lambda cause: -cause.runs)
        return RunSelection(tuple(self.run_ids), tuple(causes), is_whole)


def select(queries: RunQueries, wanted: RunFilter) -> RunSelection:
    """Return the matching ended runs, `MOST_SELECTED` at most.

    Without a status, those that did not succeed.
    """
    return _select(queries, wanted, ENDED_BADLY, are_over=True)


def select_open(queries: RunQueries, wanted: RunFilter) -> RunSelection:
    """Return the matching runs that have not ended, `MOST_SELECTED` at most."""
    return _select(queries, wanted, NOT_OVER, are_over=False)


def select_named(queries: RunQueries, run_ids: Sequence[str]) -> RunSelection:
    """Return these runs, whatever their status, without those that do not exist."""
    collected = _Collected()
    for first in range(0, len(run_ids), _PAGE):
        for run in queries.runs(run_ids[first : first + _PAGE]):
            if run is not None:
                collected.add(run)
    return collected.selection(is_whole=True)


def _select(
    queries: RunQueries, wanted: RunFilter, usual: frozenset[Status], *, are_over: bool
) -> RunSelection:
    wanted = replace(wanted, statuses=wanted.statuses or usual, children=False)
    collected, cursor = _Collected(), None
    while True:
        left = MOST_SELECTED - len(collected.run_ids)
        page = queries.list_runs(wanted, min(_PAGE, left), cursor)
        for run in queries.runs([row.run_id for row in page.entries]):
            if run is not None and run.is_final == are_over:
                collected.add(run)
        cursor = page.next
        if cursor is None or len(collected.run_ids) >= MOST_SELECTED:
            return collected.selection(is_whole=cursor is None)


def retry_many(
    client: ClientCore, run_ids: Sequence[str], request: RetryRequest
) -> Iterator[Retried]:
    """Retry runs one after the other, no faster than workers can begin them.

    Each result is yielded once the retry is durable. A refused retry does not stop the others; when
    the iteration stops, the remaining runs are not retried.

    Raises:
        EngineUnreachable: Redis cannot be reached.
    """
    agents: dict[str, PreparedAgent | GraphError] = {}
    for first in range(0, len(run_ids), _AT_ONCE):
        began_at = monotonic()
        some = run_ids[first : first + _AT_ONCE]
        results = [_retry_one(client, run_id, request, agents) for run_id in some]
        client.keep([result.run_id for result in results if result.refused is None])
        yield from results
        if first + _AT_ONCE < len(run_ids):
            pause(max(0.0, began_at + _AT_ONCE / _PER_SECOND - monotonic()))


def _retry_one(
    client: ClientCore,
    run_id: str,
    request: RetryRequest,
    agents: dict[str, PreparedAgent | GraphError],
) -> Retried:
    try:
        run = client.queries.run(run_id)
        if request.agent == CURRENT:
            request = replace(request, agent=_prepared(client, current_reference(run), agents))
        retry_run(client, run, request)
    except EngineUnreachable:
        raise
    except (SleipnirError, GraphError) as error:
        return Retried(run_id, error)
    return Retried(run_id)


def _prepared(
    client: ClientCore, agent: str, known: dict[str, PreparedAgent | GraphError]
) -> PreparedAgent:
    """Return an agent as it is now, prepared once for all of its runs."""
    if agent not in known:
        try:
            known[agent] = client.prepare(agent)
        except GraphError as error:
            known[agent] = error
    found = known[agent]
    if isinstance(found, GraphError):
        raise found
    return found
