"""Derives from a run's checkpoints its state after any step, and where its time went.

Very long histories are folded: the first and newest steps are kept as they were, and the writes
of those in between are merged into the last one of them.
"""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.records import dataclass
from sleipnir.scheduler.process.packing import as_stored, pack, stored_bytes, unpack
from sleipnir.scheduler.runs.model import NO_USAGE, Checkpoint, Inherited, Usage, VisitCounts


@dataclass(frozen=True, slots=True)
class Moment:
    """A run's state and position after a committed step."""

    step: int
    state: Mapping[str, Any]  # keys sorted
    frontier: tuple[str, ...]  # the nodes of the next step; none after the last one
    visits: Mapping[str, int]  # by node, the frontier included


def moment_after(history: Iterable[Checkpoint], step: int) -> Moment:
    """Return the state and position after `step`; reads the history once, as far as necessary.

    Raises:
        IndexError: that step was not committed, or was folded into a later one.
    """
    state: dict[str, Any] = {}
    visits: Counter[str] = Counter()
    last = -1
    away = False
    for checkpoint in history:
        last = checkpoint.step
        state.update(checkpoint.writes)
        visits.update(checkpoint.frontier)
        away = away or (last == step and checkpoint.folded)
        if last == step and not away:
            return Moment(step, dict(sorted(state.items())), checkpoint.frontier, dict(visits))
        if away and not checkpoint.folded:
            break
    if not away:
        raise IndexError(f"step {step} does not exist; the last one is {last}")
    raise IndexError(
        f"step {step} is no longer stored separately (history_limit_bytes); "
        f"the next stored step is {last}"
    )


Change = dict[str, Any]  # of a key: `after`, and `before` if it had a value


def changes_of(
    history: Iterable[Checkpoint], key: str | None = None, superseded: Iterable[Checkpoint] = ()
) -> Iterator[tuple[Checkpoint, dict[str, Change]]]:
    """Yield each checkpoint with its changes by key, in the order of commits.

    Args:
        key: restricts the changes to this key.
        superseded: checkpoints that are no longer in the history.
    """
    if gone := list(superseded):
        history = _as_committed(gone, history)
    values: dict[str, Any] = {}
    path: dict[int, Mapping[str, Any]] = {}  # values by step, if some steps were superseded
    for checkpoint in history:
        if checkpoint.step in path:
            path = {step: writes for step, writes in path.items() if step < checkpoint.step}
            values = {name: value for writes in path.values() for name, value in writes.items()}
        if gone:
            path[checkpoint.step] = checkpoint.writes
        changes: dict[str, Change] = {}
        for name, after in sorted(checkpoint.writes.items()):
            if key in (None, name):
                before = {"before": values[name]} if name in values else {}
                changes[name] = {**before, "after": after}
        values.update(checkpoint.writes)
        yield checkpoint, changes


def _as_committed(gone: Sequence[Checkpoint], history: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Return superseded checkpoints among the others, in the order of commits."""
    first = min(checkpoint.step for checkpoint in gone)

    def order(checkpoint: Checkpoint) -> tuple[int, float, int]:
        never = inf if checkpoint.step >= first else 0
        return checkpoint.at, checkpoint.superseded_by or never, checkpoint.step

    return sorted([*gone, *history], key=order)


def folded(texts: Sequence[str], limit_bytes: int) -> tuple[int, list[bytes | str]]:
    """Return how many of the first stored checkpoints to replace, and by which ones.

    The first steps keep an eighth of the limit, and the newest ones a quarter. The writes of all
    steps in between move to the last of these, which so holds at most one whole state; they keep
    everything else.
    """
    entries = [*map(as_stored, texts)]
    sizes = [stored_bytes([entry]) for entry in entries]
    first = _within(sizes, limit_bytes // 8)
    last = len(entries) - _within(sizes[::-1], limit_bytes // 4)
    if last - first < 2:
        return 0, []
    between = [json.loads(unpack(text)) for text in texts[first:last]]
    writes: dict[str, Any] = {}
    for checkpoint in between:
        writes.update(checkpoint["writes"])
        checkpoint.update(writes={}, folded=True)
    del between[-1]["folded"]
    between[-1]["writes"] = writes
    return last, [*entries[:first], *(pack(encode(checkpoint)) for checkpoint in between)]


def _within(sizes: Sequence[int], limit_bytes: int) -> int:
    """Return how many of them fit, but at least one."""
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if total > limit_bytes:
            return max(1, count)
    return len(sizes)


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """The committed visits of one node; durations are from begin to end, including parking.

    The waiting and parked times of a map's invocations are not stored.
    """

    node: str
    visits: int
    total_ms: int
    max_ms: int
    usage: Usage
    failed: int = 0  # visits that failed without ending the run; for a map, items
    wait_ms: int = 0  # from the start of their steps to their begin
    parked_ms: int = 0  # part of the total in which they waited without a worker
    counts: VisitCounts = VisitCounts()

    @property
    def avg_ms(self) -> float:
        return self.total_ms / self.visits

    def __add__(self, other: NodeTimes) -> NodeTimes:
        return NodeTimes(
            self.node,
            self.visits + other.visits,
            self.total_ms + other.total_ms,
            max(self.max_ms, other.max_ms),
            self.usage + other.usage,
            self.failed + other.failed,
            self.wait_ms + other.wait_ms,
            self.parked_ms + other.parked_ms,
            self.counts.plus(other.counts),
        )


def chain_rows(timing: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the totals of each node that a map ran for its items, from the map's timing."""
    branch = timing.get("branch")
    return () if branch is None else (branch, *branch.get("then", ()))


def items_done(timing: Mapping[str, Any]) -> int | None:
    """Return how many items of a map ended, from its timing; None for other nodes."""
    branch = timing.get("branch")
    return None if branch is None else branch.get("done", branch["visits"])


def node_times(history: Iterable[Checkpoint]) -> list[NodeTimes]:
    """Return a row per executed node, slowest total first; invocations count for their branch."""
    rows: dict[str, NodeTimes] = {}

    def add(new: NodeTimes) -> None:
        old = rows.get(new.node)
        rows[new.node] = new if old is None else old + new

    for checkpoint in history:
        for node, timing in checkpoint.nodes.items():
            ms, failed = timing.get("ms", 0), timing.get("failed", 0)
            waited, parked = timing.get("wait", 0), timing.get("parked", 0)
            counts = VisitCounts.from_json(timing)
            add(NodeTimes(node, 1, ms, ms, _usage(timing), failed, waited, parked, counts))
            for took in times_of_chain(timing):
                add(took)
    return sorted(rows.values(), key=lambda row: (-row.total_ms, row.node))


def times_of_chain(timing: Mapping[str, Any]) -> Iterator[NodeTimes]:
    """Yield the rows of the nodes that a map ran for its items, from the map's timing."""
    for row in chain_rows(timing):
        visits, total_ms, max_ms = row["visits"], row["ms"], row["max_ms"]
        failed, counts = row.get("failed", 0), VisitCounts.from_json(row)
        yield NodeTimes(row["id"], visits, total_ms, max_ms, _usage(row), failed, counts=counts)


def used_by_steps(history: Iterable[Checkpoint]) -> Inherited:
    """Return what a run's own steps used, and how long they took, as of its first node's begin."""
    own = [checkpoint for checkpoint in history if any(checkpoint.nodes.values())]
    ms = sum(_step_ms(checkpoint, waited=checkpoint is not own[0]) for checkpoint in own)
    return Inherited(sum((row.usage for row in node_times(own)), NO_USAGE), ms)


def _step_ms(checkpoint: Checkpoint, *, waited: bool) -> int:
    """Return how long a step took: as long as its slowest node, with or without its wait."""
    return max(
        int(timing.get("ms", 0)) + waited * int(timing.get("wait", 0))
        for timing in checkpoint.nodes.values()
    )


def _usage(timing: Any) -> Usage:
    return Usage(*timing["usage"]) if "usage" in timing else NO_USAGE


# So many decisions of a run are listed.
MOST_DECISIONS = 1_000


@dataclass(frozen=True, slots=True)
class RouteTaken:
    """What a node with routes or a switch has decided in one visit."""

    node: str
    step: int
    visit: int  # of the node, from 1
    index: int  # of the route, from 1; a switch's default is its last
    label: str
    to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Decisions:
    """What the conditions of a run have decided."""

    last: tuple[RouteTaken, ...] = ()  # oldest first
    earlier: int = 0  # how many there are before these


def decisions_of(history: Iterable[Checkpoint]) -> Decisions:
    """Return the last decisions of a run; none of a map's items, which have no steps."""
    count = 0
    found: deque[RouteTaken] = deque(maxlen=MOST_DECISIONS)
    for checkpoint in history:
        for node, timing in checkpoint.nodes.items():
            if (taken := timing.get("route")) is not None:
                count += 1
                found.append(
                    RouteTaken(
                        node,
                        checkpoint.step,
                        taken["visit"],
                        taken["index"],
                        taken["label"],
                        tuple(taken["to"]),
                    )
                )
    return Decisions(tuple(found), count - len(found))
