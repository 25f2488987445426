"""The times of a run's visits and nodes: those of its checkpoints, and of the step under way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.runs.events import (
    NarrationEntry,
    RetryScheduled,
    RunRetried,
    StepCommitted,
    VisitDelayed,
)
from sleipnir.scheduler.runs.history import (
    NodeTimes,
    chain_rows,
    items_done,
    node_times,
    times_of_chain,
)
from sleipnir.scheduler.runs.model import NO_USAGE, Checkpoint, Run
from sleipnir.scheduler.runs.spending import NOTHING_SPENT, spent_by_node, unattributed
from sleipnir.scheduler.runs.step import StepVisit
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.inside_visits import read_inside

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client
    from sleipnir.scheduler.store.queries.histories import LastStep
    from sleipnir.scheduler.views.types import run as types

# In how many of the newest events of a run its last step is looked for.
_EVENTS = 500
_MOST_PAUSES = 50  # the newest ones of a visit
_MOST_OF_REASON = 200
# States of visits that have not begun.
_NOT_BEGUN = ("queued", "untouched")


def timeline_document(
    client: Client, run: Run, *, start: int = 0, limit: int
) -> types.TimelineDocument:
    """Return a row per visit in steps from `start` on: begin, duration, waiting and parked time.

    Each has its model calls and child runs (inside_visits.py), which count for `limit` too.
    """
    inside = read_inside(client, run)
    rows: list[types.TimelineRowDocument] = []
    length = 0
    following: int | None = None
    committed = -1
    for checkpoint in client.queries.checkpoints(run.run_id, start):
        found: list[types.TimelineRowDocument] = [
            {**row, **inside(row)} for row in _rows_of(checkpoint)
        ]
        length += sum(1 + len(row["calls"]) + len(row["children"]) for row in found)
        if rows and length > limit:
            following = checkpoint.step
            break
        rows += found
        committed = checkpoint.step
    if following is None and committed < run.step and run.started_at is not None:
        rows += [{**row, **inside(row)} for row in last_step_rows(client, run)]
    now_ms = client.queries.now_ms()
    return {
        "rows": rows,
        "now_ms": run.ended_at if run.ended_at is not None else now_ms,
        "next": following,
    }


def _rows_of(checkpoint: Checkpoint) -> Iterator[types.VisitRowDocument]:
    # All visits of a step are committed together, when the last one has ended.
    ends = {node: _waited(timing) + _took(timing) for node, timing in checkpoint.nodes.items()}
    longest = max(ends.values(), default=0)
    for node, timing in checkpoint.nodes.items():
        waited = _waited(timing)
        began = checkpoint.at - longest + waited
        yield {
            "step": checkpoint.step,
            "node": node,
            "state": "tolerated" if timing.get("failed") else "done",
            "began_ms": began,
            "began_at": to_rfc3339(began),
            "waited_ms": waited,
            "took_ms": _took(timing),
            "parked_ms": int(timing.get("parked", 0)),
            "items": items_done(timing),
            "parked_since_ms": None,
            "held_up": len(ends) > 1 and ends[node] == longest,
            "pauses": [],
        }


def _waited(timing: Mapping[str, Any]) -> int:
    return int(timing.get("wait", 0))


def _took(timing: Mapping[str, Any]) -> int:
    return int(timing.get("ms", 0))


def last_step_rows(client: Client, run: Run) -> Iterator[types.VisitRowDocument]:
    """Yield the visits of the step that is under way, or was when the run ended, as rows."""
    yield from _rows_of_last(client, run, client.queries.last_step(run))


def _rows_of_last(client: Client, run: Run, step: LastStep) -> Iterator[types.VisitRowDocument]:
    pauses = _pauses(client.queries.latest(run.run_id, None, _EVENTS), run.step)
    for visit in step.visits:
        if visit.state == "untouched":
            continue
        timing = step.timings.get(visit.node)
        times = _times_so_far(run, visit, step.began_ms)
        if timing is not None:
            times = {
                "began_ms": step.began_ms + _waited(timing),
                "waited_ms": _waited(timing),
                "took_ms": _took(timing),
                "parked_ms": int(timing.get("parked", 0)),
                "parked_since_ms": None,
            }
        yield {
            "step": run.step,
            "node": visit.node,
            "state": visit.state,
            "began_at": to_rfc3339(times["began_ms"]),
            **times,
            "items": None,
            "held_up": False,
            "pauses": pauses.get(visit.node, [])[-_MOST_PAUSES:],
        }


def _times_so_far(run: Run, visit: StepVisit, step_began_ms: int) -> types.VisitTimesDocument:
    began = visit.began_ms or step_began_ms
    parked_for = 0
    if run.ended_at is not None and visit.parked_at is not None:
        parked_for = run.ended_at - visit.parked_at
    return {
        "began_ms": began,
        "waited_ms": visit.waited_ms,
        "took_ms": None if run.ended_at is None else run.ended_at - began,
        "parked_ms": visit.parked_ms + parked_for,
        "parked_since_ms": visit.parked_at if run.ended_at is None else None,
    }


def _pauses(newest: Iterable[NarrationEntry], step: int) -> dict[str, list[types.PauseDocument]]:
    """Return the pauses in a step that is not committed, by node."""
    pauses: dict[str, list[types.PauseDocument]] = {}
    for entry in newest:
        event = entry.event
        # The failure of a step is told as its last event.
        if isinstance(event, RunRetried) or (
            isinstance(event, StepCommitted) and event.step < step
        ):
            pauses.clear()
        elif isinstance(event, RetryScheduled | VisitDelayed):
            pauses.setdefault(event.node, []).append(
                {
                    "began_ms": entry.at,
                    "allowed_ms": round(event.delay_s * 1000),
                    "reason": event.reason[:_MOST_OF_REASON],
                    "attempt": event.attempt if isinstance(event, RetryScheduled) else None,
                }
            )
    return pauses


# ---- nodes


def times_of_nodes(client: Client, run: Run) -> list[NodeTimes]:
    """Return a row per node that has begun, in the order of their first visits."""
    history = client.queries.history(run.run_id)
    rows = {row.node: row for row in node_times(history)}
    order = dict.fromkeys(_visited(history))
    for row in unfinished_times(client, run):
        rows[row.node] = rows[row.node] + row if row.node in rows else row
        order[row.node] = None
    if unattributed(run):  # counted by an earlier version, by committed visits only
        return [rows[node] for node in order]
    spent = spent_by_node(run)
    return [replace(rows[node], usage=spent.get(node, NOTHING_SPENT).usage) for node in order]


def unfinished_times(client: Client, run: Run) -> Iterator[NodeTimes]:
    """Yield the visits of the step under way, or of the one that the run ended in; no usage.

    Nodes of a chain are among them, with what their map has stored so far.
    """
    if run.started_at is None or client.queries.steps(run.run_id) >= run.step:
        return
    end_ms = run.ended_at or client.queries.now_ms()
    step = client.queries.last_step(run)
    for row in _rows_of_last(client, run, step):
        if row["state"] in _NOT_BEGUN:
            continue
        ms = end_ms - row["began_ms"] if row["took_ms"] is None else row["took_ms"]
        parked_ms = row["parked_ms"]
        if row["parked_since_ms"] is not None:
            parked_ms += end_ms - row["parked_since_ms"]
        failed = int(row["state"] in ("failed", "timed_out"))
        yield NodeTimes(row["node"], 1, ms, ms, NO_USAGE, failed, row["waited_ms"], parked_ms)
    for timing in step.timings.values():
        for took in times_of_chain(timing):
            yield replace(took, usage=NO_USAGE)
    under_way = [visit.node for visit in step.visits if visit.node not in step.timings]
    for node, sums in client.queries.sums_of_maps(run, under_way).items():
        yield NodeTimes(node, sums.visits, sums.ms, sums.max_ms, NO_USAGE, sums.failed)


def find_unfinished(
    rows: Iterable[types.VisitRowDocument], node: str
) -> types.VisitRowDocument | None:
    """Return a node's visit among the rows of a step; None if it has not begun."""
    found = (row for row in rows if row["node"] == node and row["state"] not in _NOT_BEGUN)
    return next(found, None)


def _visited(history: Iterable[Checkpoint]) -> Iterator[str]:
    for checkpoint in history:
        for node, timing in checkpoint.nodes.items():
            yield node
            yield from (row["id"] for row in chain_rows(timing))
