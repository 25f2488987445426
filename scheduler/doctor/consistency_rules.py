"""Invariants of every run at every instant, whatever processes died on the way.

Pure: takes one consistent reading of a run, returns violations. `consistency` reads. A healthy
engine has no violations, and a run that breaks the rule `stuck` would never end.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from sleipnir.graphs.document.finding import printable
from sleipnir.records import dataclass
from sleipnir.scheduler.doctor import conversation_rules
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import FINAL, Status
from sleipnir.scheduler.runs.snapshot import ABSENT, NEVER_EXPIRES, RunSnapshot, VisitTrace
from sleipnir.scheduler.runs.stranded import stuck

# The parts of a run, besides its record, that outlive its end, and those removed with it.
EXPIRING = (
    *("state", "history", "events", "logs", "children", "failures", "messages"),
    *("transcripts", "failed_transcripts", "superseded", "spawned"),
)
TRANSIENT = ("visits", "pending", "questions", "escalations")
# Kept of a step that was not completed, for a retry.
SET_ASIDE = ("staged", "kept")
# The statuses that have an index of their own.
_RARE = (Status.WAITING, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT)


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, of a run or of what is named instead of one."""

    run_id: str
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.run_id}: {self.rule}: {self.text}"


def violations(run: RunSnapshot) -> list[Violation]:
    """Return every rule that this run breaks."""
    if not run.record:
        rules = _RULES_OF_NO_RUN
    else:
        rules = {**_RULES, **(_RULES_OF_FINAL if run.is_final else _RULES_OF_OPEN)}
    return [
        Violation(run.run_id, name, text)
        for name, rule in rules.items()
        for text in _broken(rule, run)
    ]


def _broken(rule: Rule, run: RunSnapshot) -> list[str]:
    try:
        return list(rule(run))
    except (KeyError, ValueError, IndexError) as error:
        return [f"its record is invalid: {error!r}"]


# ---- every run


def _history_is_contiguous(run: RunSnapshot) -> Iterator[str]:
    if _has_lost_its_parts(run):
        return
    numbers = [checkpoint.step for checkpoint in run.checkpoints]
    if numbers != list(range(len(numbers))):
        yield f"the steps of its history are {numbers}"
    # A step that ended the run has added a checkpoint without a next step.
    allowed = (run.step, run.step + 1) if run.is_final else (run.step,)
    if len(numbers) not in allowed:
        yield f"it is in step {run.step} and has {len(numbers)} checkpoints"
    elif run.checkpoints[run.step - 1].frontier != run.frontier:
        decided = " ".join(run.checkpoints[run.step - 1].frontier)
        yield f"step {run.step} is at '{run.record['frontier']}', decided was '{decided}'"


def _has_lost_its_parts(run: RunSnapshot) -> bool:
    """Return whether its parts expired because no scheduler removed them; the record stays."""
    return run.is_final and run.expires_in["history"] == ABSENT


def _visits_were_admitted(run: RunSnapshot) -> Iterator[str]:
    if _has_lost_its_parts(run):
        return
    admitted = Counter(
        node for checkpoint in run.checkpoints[: run.step] for node in checkpoint.frontier
    )
    counted = {
        name.removeprefix("n:"): int(count)
        for name, count in run.record.items()
        if name.startswith("n:")
    }
    for node in sorted(admitted.keys() | counted.keys()):
        if admitted[node] != counted.get(node, 0):
            yield (
                f"node {node} is counted {counted.get(node, 0)} times, "
                f"the history admits it {admitted[node]} times"
            )


def _each_visit_is_committed_once(run: RunSnapshot) -> Iterator[str]:
    for before, checkpoint in zip(run.checkpoints, run.checkpoints[1:], strict=False):
        if set(checkpoint.nodes) != set(before.frontier):
            yield (
                f"step {checkpoint.step} visited {sorted(before.frontier)} "
                f"and committed {sorted(checkpoint.nodes)}"
            )


def _children_agree(run: RunSnapshot) -> Iterator[str]:
    for child in run.children:
        if child.status is None:
            continue  # its retention ended first; waits for it are checked elsewhere
        parent_run, _, visit = child.parent.partition(" ")
        if parent_run != run.run_id:
            yield f"child {child.run_id} says its parent is '{child.parent}'"
        is_spawned = child.run_id in run.spawned
        if child.status in FINAL:
            if is_spawned and not run.is_final:
                yield f"child {child.run_id} is {child.status}, and counted as alive"
        elif not is_spawned and not _waits_for(run, visit, child.run_id):
            yield f"child {child.run_id} is {child.status}, and no visit waits for it"


def _waits_for(run: RunSnapshot, visit: str, child_id: str) -> bool:
    return any(
        trace.visit == visit and row.detail == child_id
        for trace, _ in run.open_visits()
        for row in trace.waits_for("child")
    )


def _indexes_agree(run: RunSnapshot) -> Iterator[str]:
    expected = _indexes_of(run)
    for name in sorted(expected - run.indexes.keys()):
        yield f"the index '{printable(name)}' does not have it"
    for name, at in run.indexes.items():
        if name not in expected:
            yield f"the index '{printable(name)}' has it, and it does not belong there"
        elif not name.startswith("ids:") and at != int(run.record["created"]):
            yield (
                f"the index '{printable(name)}' has it as created at {at}, "
                f"not {run.record['created']}"
            )


def _indexes_of(run: RunSnapshot) -> set[str]:
    """Return the names of the indexes that should contain a run."""
    ids, record = f"ids:{run.run_id[:3]}", run.record
    if "parent" in record:
        return {ids, "childruns"}
    labels = json.loads(record.get("labels", "{}"))
    return {
        *(ids, "runs", f"agent:{record['agent']}"),
        *(f"label:{key}={value}" for key, value in labels.items()),
        *((f"batch:{record['batch']}",) if "batch" in record else ()),
        *(() if run.is_final else ("open",)),
        *((run.status,) if run.status in _RARE else ()),
    }


# ---- ended runs


def _nothing_is_left(run: RunSnapshot) -> Iterator[str]:
    for kind in TRANSIENT if run.status != Status.SUCCEEDED else (*TRANSIENT, *SET_ASIDE):
        if run.expires_in[kind] != ABSENT:
            yield f"it is {run.status} and still has {kind}"
    for trace in run.traces:
        yield from (f"it is {run.status} and {left}" for left in _remains(trace))
    if run.deadline_timer is not None:
        yield f"it is {run.status} and its deadline still runs"


def _remains(trace: VisitTrace) -> Iterator[str]:
    """Yield what indexes still contain of a visit, other than the hash of open visits."""
    if trace.timer is not None:
        yield f"visit {trace.visit} has a timer"
    for row in trace.waits:
        if row.kind and not trace.kept:
            yield f"visit {trace.visit} keeps what it waited for as {row.call}"
        elif row.timer is not None:
            yield f"visit {trace.visit} has a timer for what it waited for as {row.call}"
        if row.asked_at is not None:
            yield f"visit {trace.visit} is in the inbox"
        if row.has_question:
            yield f"visit {trace.visit} has a question"
    if trace.map is not None and not trace.kept:
        yield f"visit {trace.visit} has a map"
    if trace.turns and not trace.kept:
        yield f"visit {trace.visit} has a conversation"


def _it_will_expire(run: RunSnapshot) -> Iterator[str]:
    if run.expiry_timer is None:
        yield f"it is {run.status} and has no retention timer"
    for kind in (*EXPIRING, *SET_ASIDE):
        if run.expires_in[kind] == NEVER_EXPIRES:
            yield f"it is {run.status} and its {kind} never expires"
    if run.expires_in["run"] != NEVER_EXPIRES:
        yield f"it is {run.status} and its record expires, which leaves it counted"
    for trace in run.traces:
        if trace.kept == "lasts":
            yield f"it is {run.status}, and what visit {trace.visit} has left never expires"


# ---- open runs


def _something_will_happen(run: RunSnapshot) -> Iterator[str]:
    for found in stuck(run):
        yield found.text


def _indexes_name_what_is_open(run: RunSnapshot) -> Iterator[str]:
    for trace in run.traces:
        if trace.open is None:
            yield from (f"it is not open, and {left}" for left in _remains(trace))
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


def _frontier_is_accounted_for(run: RunSnapshot) -> Iterator[str]:
    expected = {VisitId.of(run.step, node) for node in run.frontier}
    open_now = {trace.visit for trace, _ in run.open_visits() if not trace.is_invocation}
    staged = {VisitId.of(run.step, node) for node in run.staged}
    known = open_now | staged | set(run.pending)
    for visit in sorted(known - expected):
        yield f"visit {visit} does not belong to step {run.step}, at {sorted(expected)}"
    if not run.is_failing:
        for visit in sorted(expected - known):
            yield f"visit {visit} is neither open nor held back nor staged"
    for trace, found in run.open_visits():
        if (found.status == "staged") != (trace.visit in staged):
            yield f"visit {trace.visit} is {found.status}, and staged: {trace.visit in staged}"
        if trace.visit in run.pending and found.status != "held":
            yield f"visit {trace.visit} is {found.status} and held back"
    if int(run.record["width"]) != len(run.frontier):
        yield f"its width is {run.record['width']}, its frontier {list(run.frontier)}"


def _counters_agree(run: RunSnapshot) -> Iterator[str]:
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


def _parent_waits(run: RunSnapshot) -> Iterator[str]:
    if run.parent is None:
        return
    if run.parent.status is None or run.parent.status in FINAL:
        yield f"it is {run.status} and its parent is {run.parent.status or 'gone'}"
    elif not run.parent.wants(run.run_id):
        yield "its parent does not wait for it"
    if not run.parent.lists_us:
        yield "its parent does not list it"


def _deadline_is_watched(run: RunSnapshot) -> Iterator[str]:
    due = run.record.get("deadline")
    if due is not None and run.deadline_timer != int(due):
        yield f"its deadline is {due}, its timer {run.deadline_timer}"
    if due is None and "started" in run.record and "timeout_ms" in run.record:
        yield "it has a time limit, began, and has no deadline"


def _it_stays_while_it_goes_on(run: RunSnapshot) -> Iterator[str]:
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


# ---- names of missing runs


def _nothing_names_no_run(run: RunSnapshot) -> Iterator[str]:
    for kind, expires_in in run.expires_in.items():
        if expires_in == NEVER_EXPIRES:
            yield f"there is no such run, and its {kind} never expires"
    for trace in run.traces:
        yield from (f"there is no such run, and {left}" for left in _remains(trace))
    for name in run.indexes:
        yield f"there is no such run, and the index '{printable(name)}' has it"


Rule = Callable[[RunSnapshot], Iterator[str]]

_RULES: Mapping[str, Rule] = {
    "history": _history_is_contiguous,
    "visits": _visits_were_admitted,
    "commits": _each_visit_is_committed_once,
    "conversation": conversation_rules.calls_have_results,
    "turns": conversation_rules.turns_are_complete,
    "tasks": conversation_rules.tasks_agree,
    "inbox": conversation_rules.inbox_agrees,
    "children": _children_agree,
    "index": _indexes_agree,
}
_RULES_OF_FINAL: Mapping[str, Rule] = {
    "leftovers": _nothing_is_left,
    "expiry": _it_will_expire,
}
_RULES_OF_OPEN: Mapping[str, Rule] = {
    "stuck": _something_will_happen,
    "indexes": _indexes_name_what_is_open,
    "frontier": _frontier_is_accounted_for,
    "counters": _counters_agree,
    "parent": _parent_waits,
    "roster": conversation_rules.children_are_known,
    "waits": conversation_rules.waits_are_told,
    "deadline": _deadline_is_watched,
    "expiry": _it_stays_while_it_goes_on,
}
_RULES_OF_NO_RUN: Mapping[str, Rule] = {"orphan": _nothing_names_no_run}
