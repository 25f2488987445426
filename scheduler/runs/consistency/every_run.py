"""Rules for every run that has a record: its history, its children and the indexes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from sleipnir.graphs.document.finding import printable
from sleipnir.scheduler.runs.model import FINAL, Status
from sleipnir.scheduler.runs.snapshot import ABSENT, RunSnapshot

# The statuses that have an index of their own.
_RARE = (Status.WAITING, Status.FAILED, Status.CANCELLED, Status.TIMED_OUT)


def history_is_contiguous(run: RunSnapshot) -> Iterator[str]:
    """Check that the history has every step, and the current one as it was decided."""
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


def visits_were_admitted(run: RunSnapshot) -> Iterator[str]:
    """Check that the counts of visits by node are those of the history."""
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


def visits_are_committed_once(run: RunSnapshot) -> Iterator[str]:
    """Check that each visit of a step committed once."""
    for before, checkpoint in zip(run.checkpoints, run.checkpoints[1:], strict=False):
        if set(checkpoint.nodes) != set(before.frontier):
            yield (
                f"step {checkpoint.step} visited {sorted(before.frontier)} "
                f"and committed {sorted(checkpoint.nodes)}"
            )


def children_agree(run: RunSnapshot) -> Iterator[str]:
    """Check that children name this run as their parent, and that open ones are wanted."""
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


def indexes_agree(run: RunSnapshot) -> Iterator[str]:
    """Check that the indexes of the partition have the run where its record says."""
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
