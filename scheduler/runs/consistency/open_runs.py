"""Rules for open runs, besides those that `progress` has: what does harm later."""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.scheduler.runs.consistency.ended_runs import remains
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.runs.snapshot import ABSENT, RunSnapshot


def indexes_name_what_is_open(run: RunSnapshot) -> Iterator[str]:
    """Check that timers, questions and maps belong to open visits that use them."""
    for trace in run.traces:
        if trace.open is None:
            yield from (f"it is not open, and {left}" for left in remains(trace))
            continue
        status = trace.open.status
        if trace.timer is not None and status not in ("ready", "leased", "staged"):
            yield f"visit {trace.visit} is {status} and has a timer"
        for row in trace.waits:
            if row.timer is not None and not row.is_open:
                yield f"visit {trace.visit} has a timer for {row.call} and does not wait for it"
            is_asked = row.is_open and row.kind == "question"
            if (row.asked_at is not None or row.has_question) and not is_asked:
                yield f"visit {trace.visit} is {status} and has a question"
            if is_asked and row.detail and row.escalated_at is None:
                yield f"visit {trace.visit} asks {row.detail}, which is not told of it"
        has_row = any(row.kind == "map" for row in trace.waits)
        if trace.map is not None and not has_row and not trace.kept:
            yield f"visit {trace.visit} is {status} and has a map"
        if trace.turns != trace.open.turns:
            yield f"visit {trace.visit} counts {trace.open.turns} turns, has {trace.turns}"


def frontier_is_accounted_for(run: RunSnapshot) -> Iterator[str]:
    """Check that what is staged or held back belongs to the current step, and is so alone."""
    expected = {VisitId.of(run.step, node) for node in run.frontier}
    staged = {VisitId.of(run.step, node) for node in run.staged}
    for visit in sorted((staged | set(run.pending)) - expected):
        yield f"visit {visit} does not belong to step {run.step}, at {sorted(expected)}"
    for trace, found in run.open_visits():
        if (found.status == "staged") != (trace.visit in staged):
            yield f"visit {trace.visit} is {found.status}, and staged: {trace.visit in staged}"
        if trace.visit in run.pending and found.status != "held":
            yield f"visit {trace.visit} is {found.status} and held back"
    if int(run.record["width"]) != len(run.frontier):
        yield f"its width is {run.record['width']}, its frontier {list(run.frontier)}"


def counters_agree(run: RunSnapshot) -> Iterator[str]:
    """Check the counts of waits, invocations, free places and busy visits."""
    for trace, visit in run.open_visits():
        if visit.counted != run.counts_of(trace):
            yield f"visit {trace.visit} counts {visit.counted}, waits for {run.counts_of(trace)}"
        if trace.waits_for("map") and trace.map is not None and not run.is_failing:
            counted, under_way = trace.map.invocations, run.invocations_of(trace.visit)
            if under_way != counted:
                yield f"map {trace.visit} counts {counted} invocations, has {under_way}"
    free = run.record.get("free")
    if run.pending and free != "0":
        yield f"visits are held back while {free or 'all'} places are free"
    if run.is_failing:
        return  # dropped visits stay counted: the run ends with this step
    busy = int(run.record["busy"])
    moving = _moving(run)
    if busy != moving:
        yield f"busy is {busy}, but {moving} visits can continue without a person"
    has_staged = any(visit.status == "staged" for _, visit in run.open_visits())
    if (run.status == "waiting") != (busy == 0) and not has_staged:
        yield f"it is {run.status} with busy at {busy}"


def _moving(run: RunSnapshot) -> int:
    """Return the number of visits that can continue without a person."""
    open_now = {trace.visit for trace, _ in run.open_visits()}
    return len(set(run.pending) - open_now) + sum(
        visit.is_busy and visit.status != "staged" for _, visit in run.open_visits()
    )


def parent_waits(run: RunSnapshot) -> Iterator[str]:
    """Check that the run above is open and waits for this one."""
    if run.parent is None:
        return
    if run.parent.status is None or run.parent.status in FINAL:
        yield f"it is {run.status} and its parent is {run.parent.status or 'gone'}"
    elif not run.parent.wants(run.run_id):
        yield "its parent does not wait for it"


def parent_lists_it(run: RunSnapshot) -> Iterator[str]:
    """Check that the run above has this one among its children."""
    if run.parent is not None and not run.parent.lists_us:
        yield "its parent does not list it"


def deadline_is_watched(run: RunSnapshot) -> Iterator[str]:
    """Check that a deadline has its timer."""
    due = run.record.get("deadline")
    if due is not None and run.deadline_timer != int(due):
        yield f"its deadline is {due}, its timer {run.deadline_timer}"


def deadline_is_set(run: RunSnapshot) -> Iterator[str]:
    """Check that a run that began with a time limit has a deadline."""
    if "deadline" not in run.record and "started" in run.record and "timeout_ms" in run.record:
        yield "it has a time limit, began, and has no deadline"


def nothing_expires(run: RunSnapshot) -> Iterator[str]:
    """Check that everything of an open run stays."""
    if run.expiry_timer is not None:
        yield f"it is {run.status} and has a retention timer"
    for kind, expires_in in run.expires_in.items():
        if expires_in >= 0:
            yield f"it is {run.status} and its {kind} expires"
    for trace in run.traces:
        if trace.kept == "expires" and (trace.waits or trace.turns or trace.map is not None):
            yield f"it is {run.status}, and what visit {trace.visit} has left expires"
    for kind in ("state", "history", "events"):
        if run.expires_in[kind] == ABSENT:
            yield f"its {kind} is gone"
