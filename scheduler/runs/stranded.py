"""Finds why a run would never end by itself, and the repairs that let it continue.

Pure: takes one consistent reading of a run and returns its defects. The consistency check reports
them, the sweep of the same name repairs them. Transitions are atomic, so a healthy engine has no
defects; if one occurs all the same, it must not block the run, and whoever waits for it, forever.
"""

from __future__ import annotations

from collections.abc import Iterator

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import FINAL
from sleipnir.scheduler.runs.snapshot import (
    ABSENT,
    MapTrace,
    OpenVisit,
    RunSnapshot,
    VisitTrace,
    WaitRow,
)


@dataclass(frozen=True, slots=True)
class Repair:
    """One repair, by its name in lua/runs/repair_run.lua."""

    verb: str
    visit: str = ""
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Defect:
    """Something without which a run does not end is missing or wrong."""

    text: str
    repair: Repair | None = None  # None: the run can only be failed


def defects(run: RunSnapshot) -> list[Defect]:
    """Return everything that keeps a run from ending, or from being removed after its end."""
    if not run.record:
        return []
    try:
        return list(_left_over(run)) if run.is_final else [*stuck(run), *loose_ends(run)]
    except (KeyError, ValueError) as error:
        return [Defect(f"its record is invalid: {error!r}")]


# ---- what blocks a run


def stuck(run: RunSnapshot) -> Iterator[Defect]:
    """Yield what blocks an open run."""
    yield from _step_without_visits(run)
    for trace, visit in run.open_visits():
        yield from _stuck_visit(run, trace, visit)
    yield from _all_held_back(run)
    yield from _invocations_without_map(run)


def _step_without_visits(run: RunSnapshot) -> Iterator[Defect]:
    staged = {VisitId.of(run.step, node) for node in run.staged}
    if run.open_now or run.pending:
        return
    text = f"it is {run.status} in step {run.step} and none of its visits is open"
    if staged and (run.is_failing or staged >= _expected(run)):
        yield Defect(text, Repair("restage", min(staged)))
    else:
        yield Defect(text)


def _expected(run: RunSnapshot) -> set[str]:
    return {VisitId.of(run.step, node) for node in run.frontier}


def _stuck_visit(run: RunSnapshot, trace: VisitTrace, visit: OpenVisit) -> Iterator[Defect]:
    """Yield what blocks one open visit."""
    name = trace.visit
    text = f"visit {name} is {visit.status} and has no"
    match visit.status:
        case "ready" | "leased" | "staged":
            if trace.timer is None:
                yield Defect(f"{text} timer", Repair("watch", name))
        case "held":
            if name not in run.pending:
                yield Defect(f"{text} place among the pending ones", Repair("requeue", name))
        case "waiting":
            yield from _stuck_waiting(run, trace)
        case _:
            yield Defect(f"visit {name} has an invalid record")


def _stuck_waiting(run: RunSnapshot, trace: VisitTrace) -> Iterator[Defect]:
    """Yield the waits of a visit that will never close."""
    rows = [row for row in trace.waits if row.is_open]
    if not rows:
        text = f"visit {trace.visit} waits, and for nothing"
        yield Defect(text, Repair("requeue", trace.visit))
    for row in rows:
        if row.kind == "child":
            yield from _stuck_parent(run, trace, row)
        elif row.is_timed and row.timer is None:
            yield _untimed(trace, row)
        if row.kind == "question":
            yield from _stuck_question(trace, row)
        elif row.kind == "map":
            yield from _stuck_map(run, trace)
        elif row.kind == "place" and len(run.spawned) < int(row.detail):
            text = f"visit {trace.visit} waits for a place for a child, and there is one"
            yield Defect(text, Repair("requeue", trace.visit))


def _untimed(trace: VisitTrace, row: WaitRow) -> Defect:
    text = f"visit {trace.visit} waits for its {row.kind} and has no timer for that"
    return Defect(text, Repair("watch_wait", trace.visit, row.call))


def _stuck_question(trace: VisitTrace, row: WaitRow) -> Iterator[Defect]:
    text = f"visit {trace.visit} waits for an answer and has no"
    if not row.has_question:
        yield Defect(f"{text} open question", Repair("ask_again", trace.visit, row.call))
    elif row.asked_at is None:
        yield Defect(f"{text} place in the inbox", Repair("list", trace.visit, row.call))


def _stuck_map(run: RunSnapshot, trace: VisitTrace) -> Iterator[Defect]:
    if trace.map is None:
        yield Defect(f"map {trace.visit} has lost its items")
        return
    if not trace.map.halted:
        yield from _missing_items(trace.visit, trace.map)
        if trace.map.missing:
            return
    if run.invocations_of(trace.visit):
        return
    text = f"map {trace.visit} has no invocation under way"
    if trace.map.halted or trace.map.following >= trace.map.total:
        yield Defect(f"{text}, and nothing collects its results", Repair("collect", trace.visit))
    else:
        following = trace.visit.invocation(trace.map.following)
        yield Defect(text, Repair("invoke", following))


def _missing_items(visit: VisitId, items: MapTrace) -> Iterator[Defect]:
    for missing in items.missing:
        name = f"item {missing.index} of map {visit}"
        if not missing.has_item:
            yield Defect(f"{name} is gone, and it has no result")
        else:
            again = Repair("invoke", visit.invocation(missing.index))
            yield Defect(f"{name} has neither an invocation nor a result", again)


def _stuck_parent(run: RunSnapshot, trace: VisitTrace, row: WaitRow) -> Iterator[Defect]:
    child = next((child for child in run.children if child.run_id == row.detail), None)
    if child is None or child.status is None or child.status in FINAL:
        text = f"visit {trace.visit} waits for a child run that is not under way"
        yield Defect(text, Repair("tell_parent", trace.visit, row.call))
    elif row.is_timed and row.timer is None:
        yield _untimed(trace, row)


def _all_held_back(run: RunSnapshot) -> Iterator[Defect]:
    """Yield a defect if visits are held back and none is running whose end would start them."""
    in_place = any(
        visit.status in ("ready", "leased", "staged")
        or trace.waits_for("timer")
        or trace.waits_for("map")
        for trace, visit in run.open_visits()
        if not trace.is_invocation
    )
    if run.pending and not in_place:
        text = f"its visits {' '.join(run.pending[:3])} are held back, and none is under way"
        yield Defect(text, Repair("release"))


def _invocations_without_map(run: RunSnapshot) -> Iterator[Defect]:
    maps = {trace.visit for trace, _ in run.open_visits() if trace.waits_for("map")}
    for trace, _ in run.open_visits():
        if trace.is_invocation and trace.visit.map_visit not in maps:
            text = f"visit {trace.visit} is an invocation, and no map waits for it"
            yield Defect(text, Repair("drop", trace.visit))


# ---- what does harm later


def loose_ends(run: RunSnapshot) -> Iterator[Defect]:
    """Yield defects that do not block an open run now."""
    yield from _lost_and_stray_visits(run)
    yield from _unasked_questions(run)
    yield from _miscounted_maps(run)
    yield from _miscounted_rows(run)
    yield from _unwanted(run)
    if "deadline" in run.record and run.deadline_timer is None:
        yield Defect("its deadline has no timer", Repair("watch_deadline"))


def _lost_and_stray_visits(run: RunSnapshot) -> Iterator[Defect]:
    expected = _expected(run)
    staged = {VisitId.of(run.step, node) for node in run.staged}
    for visit in sorted(expected - run.open_now - staged - set(run.pending)):
        if not run.is_failing and (run.open_now or run.pending):
            yield Defect(f"visit {visit} is neither open nor held back nor staged")
    for trace, _ in run.open_visits():
        if not trace.is_invocation and trace.visit not in expected:
            text = f"visit {trace.visit} does not belong to step {run.step}"
            yield Defect(text, Repair("drop", trace.visit))


def _unasked_questions(run: RunSnapshot) -> Iterator[Defect]:
    for trace in run.traces:
        open_ones = trace.waits_for("question") if trace.open is not None else []
        for row in trace.waits:
            if row not in open_ones and (row.has_question or row.asked_at is not None):
                text = f"visit {trace.visit} has a question and does not wait for its answer"
                yield Defect(text, Repair("withdraw", trace.visit, row.call))


def _miscounted_maps(run: RunSnapshot) -> Iterator[Defect]:
    for trace, _ in run.open_visits():
        if not trace.waits_for("map") or trace.map is None:
            continue
        under_way = run.invocations_of(trace.visit)
        if under_way and under_way != trace.map.invocations:
            # No numbers in the text: they change, and equal texts identify the defect.
            yield Defect(f"map {trace.visit} miscounts its invocations", Repair("recount"))


def _miscounted_rows(run: RunSnapshot) -> Iterator[Defect]:
    for trace, visit in run.open_visits():
        if visit.counted != run.counts_of(trace):
            yield Defect(f"visit {trace.visit} miscounts what it waits for", Repair("recount"))


def _unwanted(run: RunSnapshot) -> Iterator[Defect]:
    """Yield a defect if nothing waits for this child run."""
    if run.parent is None:
        return
    status = run.parent.status
    if status is None or status in FINAL:
        yield Defect("the run that waits for it is over", Repair("cancel"))
    elif not run.parent.wants(run.run_id):
        yield Defect("no run waits for it", Repair("cancel"))


# ---- ended runs


def _left_over(run: RunSnapshot) -> Iterator[Defect]:
    kinds = ("visits", "pending", "questions")
    if any(run.expires_in[kind] != ABSENT for kind in kinds) or run.deadline_timer is not None:
        yield Defect(f"it is {run.status} and still has visits", Repair("clear"))
    if run.expiry_timer is None:
        yield Defect(f"it is {run.status} and has no retention timer", Repair("forget"))
