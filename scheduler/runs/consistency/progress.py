"""Rules for open runs that make sure that something will happen: a run that breaks one is stuck.

Transitions are atomic, so a healthy engine keeps them all; if one is broken all the same, it must
not block the run, and whoever waits for it, forever.
"""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.runs.snapshot import MapTrace, RunSnapshot, VisitTrace, WaitRow

_TIMED = ("ready", "leased", "staged")  # the statuses of visits that have a timer


def step_has_visits(run: RunSnapshot) -> Iterator[str]:
    """Check that each visit of the step is open, held back or staged, and no other is open."""
    if not (run.open_now or run.pending):
        yield f"it is {run.status} in step {run.step} and none of its visits is open"
        return
    expected = {VisitId.of(run.step, node) for node in run.frontier}
    staged = {VisitId.of(run.step, node) for node in run.staged}
    if not run.is_failing:
        for visit in sorted(expected - run.open_now - staged - set(run.pending)):
            yield f"visit {visit} is neither open nor held back nor staged"
    for trace, _ in run.open_visits():
        if not trace.is_invocation and trace.visit not in expected:
            yield f"visit {trace.visit} does not belong to step {run.step}"


def visits_have_timers(run: RunSnapshot) -> Iterator[str]:
    """Check that a lost message or worker of a visit is noticed."""
    for trace, visit in run.open_visits():
        if visit.status in _TIMED and trace.timer is None:
            yield f"visit {trace.visit} is {visit.status} and has no timer"


def waits_have_timers(run: RunSnapshot) -> Iterator[str]:
    """Check that waits with a time limit end."""
    for trace, row in _open_waits(run):
        if row.is_timed and row.timer is None:
            yield f"visit {trace.visit} waits for its {row.kind} and has no timer for that"


def questions_are_listed(run: RunSnapshot) -> Iterator[str]:
    """Check that a question can be found by who may answer it."""
    for trace, row in _open_waits(run):
        if row.kind == "question" and row.has_question and row.asked_at is None:
            yield f"visit {trace.visit} waits for an answer and has no place in the inbox"


def children_are_under_way(run: RunSnapshot) -> Iterator[str]:
    """Check that the child runs that visits wait for have not ended."""
    open_ones = {child.run_id for child in run.children if child.status not in (None, *FINAL)}
    for trace, row in _open_waits(run):
        if row.kind == "child" and row.detail not in open_ones:
            yield f"visit {trace.visit} waits for a child run that is not under way"


def waits_can_close(run: RunSnapshot) -> Iterator[str]:
    """Check that a visit that waits does so for something that can come."""
    for trace, visit in run.open_visits():
        if visit.status not in (*_TIMED, "held", "waiting"):
            yield f"visit {trace.visit} has an invalid record"
        if visit.status == "held" and trace.visit not in run.pending:
            yield f"visit {trace.visit} is held and has no place among the pending ones"
        if visit.status == "waiting" and not any(row.is_open for row in trace.waits):
            yield f"visit {trace.visit} waits, and for nothing"
    for trace, row in _open_waits(run):
        if row.kind == "question" and not row.has_question:
            yield f"visit {trace.visit} waits for an answer and has no open question"
        elif row.kind == "place" and len(run.spawned) < int(row.detail):
            yield f"visit {trace.visit} waits for a place for a child, and there is one"


def maps_have_invocations(run: RunSnapshot) -> Iterator[str]:
    """Check that every item of a map has a result or gets one, and every invocation its map."""
    for trace, row in _open_waits(run):
        if row.kind != "map":
            continue
        if trace.map is None:
            yield f"map {trace.visit} has lost its items"
            continue
        yield from _missing_items(trace.visit, trace.map)
        if not run.invocations_of(trace.visit):
            yield f"map {trace.visit} has no invocation under way"
    maps = {trace.visit for trace, _ in run.open_visits() if trace.waits_for("map")}
    for trace, _ in run.open_visits():
        if trace.is_invocation and trace.visit.map_visit not in maps:
            yield f"visit {trace.visit} is an invocation, and no map waits for it"


def _missing_items(visit: VisitId, items: MapTrace) -> Iterator[str]:
    for missing in () if items.halted else items.missing:
        name = f"item {missing.index} of map {visit}"
        if missing.has_item:
            yield f"{name} has neither an invocation nor a result"
        else:
            yield f"{name} is gone, and it has no result"


def held_visits_are_let_in(run: RunSnapshot) -> Iterator[str]:
    """Check that a visit runs whose end starts those that are held back."""
    in_place = any(
        visit.status in _TIMED or trace.waits_for("timer") or trace.waits_for("map")
        for trace, visit in run.open_visits()
        if not trace.is_invocation
    )
    if run.pending and not in_place:
        yield f"its visits {' '.join(run.pending[:3])} are held back, and none is under way"


def _open_waits(run: RunSnapshot) -> Iterator[tuple[VisitTrace, WaitRow]]:
    for trace, visit in run.open_visits():
        for row in trace.waits if visit.status == "waiting" else ():
            if row.is_open:
                yield trace, row
