"""What somebody wants to know of a failed run first: what was printed, which child, how often."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.runs.reasons import cause_of, fixed_part
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.store.queries.filters import RunFilter
from sleipnir.scheduler.views.grouping import OneFailure, grouped
from sleipnir.scheduler.views.run import logs_document
from sleipnir.scheduler.views.timeline import last_step_rows

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.runs.documents import NodeFailureDocument
    from sleipnir.scheduler.views.types import run as types

_TAIL = 20  # log lines
_DEEPEST = 20  # levels of child runs
_MOST_CHILDREN = 1_000
_MOST_ALIKE = 200  # newest failed runs of the agent that are compared
_DAY_MS = 86_400_000
_BADLY = frozenset({Status.FAILED, Status.TIMED_OUT})


def failure_document(client: Client, run: Run) -> types.CauseDocument | None:
    """Return what is known of why a run failed, besides its error; None if it did not."""
    if run.failure is None or run.status not in _BADLY:
        return None
    return {
        "tail": _tail(client, run),
        "attempts": _attempts(client, run),
        "child": _deepest_child(client, run),
        "alike": _alike(client, run),
    }


def tolerated_failures(
    failures: Sequence[NodeFailureDocument],
) -> list[types.FailuresAlikeDocument]:
    """Failures of nodes that a run went on after, those that are alike as one: the first of them,
    with the `count` of all."""
    groups = grouped(
        OneFailure(index, each["code"], each["node"], each["message"])
        for index, each in enumerate(failures)
    )
    return [{**failures[group["first"]], "count": group["count"]} for group in groups]


def _tail(client: Client, run: Run) -> list[str]:
    if run.failure is None or run.failure.node is None:
        return []
    entries = logs_document(client, run, node=run.failure.node, limit=_TAIL)["entries"]
    message = run.failure.message
    lines = [line for entry in entries for line in entry["text"].splitlines()]
    lines = [line for line in lines if message not in line]
    # The error of a script has its last ones already.
    return [] if all(line in message for line in lines) else lines[-_TAIL:]


def _attempts(client: Client, run: Run) -> int:
    if run.failure is None or run.failure.node is None:
        return 0
    rows = (row for row in last_step_rows(client, run) if row["node"] == run.failure.node)
    numbers = (pause["attempt"] for row in rows for pause in row["pauses"])
    return max((number for number in numbers if number is not None), default=1)


def _deepest_child(client: Client, run: Run) -> types.FailedChildDocument | None:
    found, parent = None, run.run_id
    for _ in range(_DEEPEST):
        (children,) = client.queries.child_rows([parent], most=_MOST_CHILDREN, counted=0)
        failed = [row for row in children.rows if row.status in _BADLY]
        if not failed:
            break
        found, parent = failed[-1], failed[-1].run_id
    if found is None:
        return None
    (why,) = client.queries.errors([found.run_id])
    return {
        "run_id": found.run_id,
        "agent": found.agent,
        "error": None if why is None else why.to_json(),
    }


def _alike(client: Client, run: Run) -> types.AlikeDocument:
    assert run.failure is not None
    since = client.queries.now_ms() - _DAY_MS
    wanted = RunFilter(statuses=_BADLY, agents=(run.agent,), since_ms=since)
    rows = client.queries.list_runs(wanted, _MOST_ALIKE).entries
    reasons = client.queries.errors([row.run_id for row in rows])
    ours = cause_of(run.failure.code, run.failure.node, run.failure.message)
    alike = [
        row
        for row, why in zip(rows, reasons, strict=True)
        if why is not None and cause_of(why.code, why.node, why.message) == ours
    ]
    first = min((row.created_at for row in alike), default=None)
    return {
        "count": len(alike),
        "since": None if first is None else to_rfc3339(first),
        "search": fixed_part(run.failure.message),
        "cause": ours,
    }
