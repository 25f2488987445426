"""Invariants of conversations: their children, tasks and inboxes, and what `llm` nodes start.

The run's memory is read from its history, as its turns have committed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sleipnir.scheduler.runs.conversation.memory import (
    AGENTS,
    MESSAGES_READ,
    TASKS,
    is_turn,
    turn_number,
)
from sleipnir.scheduler.runs.conversation.roster import Roster, is_handle
from sleipnir.scheduler.runs.conversation.tasks import Task, TaskQueue
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import FINAL, RunContext
from sleipnir.scheduler.runs.snapshot import ABSENT, RunSnapshot


def calls_have_results(run: RunSnapshot) -> Iterator[str]:
    """Check that each call of a turn has one result in it, in the order of the calls."""
    for checkpoint in run.checkpoints:
        for key, messages in checkpoint.writes.items():
            if not (is_turn(key) and isinstance(messages, list)):
                continue
            said = [message for message in messages if isinstance(message, dict)]
            calls = [call["id"] for each in said for call in each.get("tool_calls") or ()]
            results = [each["tool_call_id"] for each in said if each.get("role") == "tool"]
            if calls != results:
                yield f"'{key}' has the calls {calls} and results of {results}"


def turns_are_complete(run: RunSnapshot) -> Iterator[str]:
    """Check that each completed step has added its turn, and no turn of a later step."""
    if not run.checkpoints or not _converses(run):
        return
    told = set[int]()
    for checkpoint in run.checkpoints:
        numbers = {turn_number(key) for key in checkpoint.writes if is_turn(key)}
        told |= numbers
        if checkpoint.step and (late := sorted(n for n in numbers if n > checkpoint.step)):
            yield f"step {checkpoint.step} has written the turns {late}"
    if missing := sorted(set(range(1, run.step)) - told):
        yield f"it is in step {run.step}, and its turns {missing} are missing"


def tasks_agree(run: RunSnapshot) -> Iterator[str]:
    """Check that blocked tasks wait for unfinished ones, and that owners are children."""
    tasks = TaskQueue.from_json(_remembered(run, TASKS) or ()).tasks
    if [task.number for task in tasks] != list(range(1, len(tasks) + 1)):
        yield f"its tasks are numbered {[task.number for task in tasks]}"
        return
    handles = {child.run_id[-8:] for child in run.children}
    for task in tasks:
        yield from (f"{task.id} {wrong}" for wrong in _wrong_with(task, tasks))
        owner = task.owner or ""
        if is_handle(owner) and owner[-8:] not in handles and "forked_from" not in run.record:
            yield f"{task.id} is the work of '{owner}', which is not a child of this run"


def _wrong_with(task: Task, tasks: tuple[Task, ...]) -> Iterator[str]:
    for number in task.blocked_by:
        if not 0 < number < task.number or tasks[number - 1].status == "completed":
            yield f"waits for task {number}, which is not an earlier one, or is completed"
    is_over = task.status in ("completed", "failed")
    if not is_over and (task.status == "blocked") != bool(task.blocked_by):
        yield f"is {task.status} and waits for {list(task.blocked_by)}"
    if not is_over and (task.status == "in_progress") != (task.owner is not None):
        yield f"is {task.status} and the work of '{task.owner}'"


def children_are_known(run: RunSnapshot) -> Iterator[str]:
    """Check that the model knows every live child once the turn that started it is over."""
    if not run.checkpoints or not _converses(run):
        return
    found = _remembered(run, AGENTS)
    roster = Roster(run.run_id) if found is None else Roster.from_json(found, run.run_id)
    known = {member.run_id for member in roster.members}
    for run_id in sorted(known - {child.run_id for child in run.children}):
        yield f"its model knows of the child {run_id}, which it does not have"
    for child in run.children:
        if child.status in FINAL or child.run_id not in run.spawned | known:
            continue
        visit = VisitId(child.parent.partition(" ")[2])
        if child.run_id not in known and visit.step < run.step:
            yield f"child {child.run_id} is {child.status}, and its model knows nothing of it"


def node_children_have_visits(run: RunSnapshot) -> Iterator[str]:
    """Check that children which models of `llm` nodes started belong to visits that go on.

    They do not outlive the attempt of their node, unless its run or its map is about to fail.
    """
    for run_id in sorted(run.spawned - {child.run_id for child in run.children}):
        yield f"it counts {run_id} as alive, which is not a child of it"
    if run.is_failing or _converses(run):
        return
    under_way = {trace.visit for trace in run.traces if trace.open is not None or trace.kept}
    halted = {trace.visit for trace in run.traces if trace.map is not None and trace.map.halted}
    for child in run.children:
        visit = VisitId(child.parent.partition(" ")[2])
        if child.run_id in run.spawned and visit not in under_way and visit.map_visit not in halted:
            yield f"child {child.run_id} is {child.status}, and visit {visit} is over"


def waits_are_told(run: RunSnapshot) -> Iterator[str]:
    """Check that each child reports its end to the visit that waits for it."""
    parents = {child.run_id: child.parent for child in run.children}
    for trace, _ in run.open_visits():
        for row in trace.waits_for("child"):
            told = parents.get(row.detail)
            if told is not None and told != f"{run.run_id} {trace.visit}":
                yield f"visit {trace.visit} waits for child {row.detail}, which tells '{told}'"
    for question in run.unasked:
        yield f"its model is told of the question '{question}', which nobody asks"


def inbox_agrees(run: RunSnapshot) -> Iterator[str]:
    """Check that a run has read no more messages than it got."""
    if "member" in run.record:
        return  # its messages are its parent's
    read = _remembered(run, MESSAGES_READ) or 0
    if read > run.messages and not (run.is_final and run.expires_in["messages"] == ABSENT):
        yield f"it has read {read} messages, and was sent {run.messages}"


def _converses(run: RunSnapshot) -> bool:
    return RunContext.from_json(run.record["context"]).converses


def _remembered(run: RunSnapshot, key: str) -> Any:
    """Return the value last written to a memory key; None without one, and for graph agents."""
    if not _converses(run):
        return None
    written = (each.writes[key] for each in reversed(run.checkpoints) if key in each.writes)
    return next(written, None)
