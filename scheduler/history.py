"""What a run's checkpoints tell: its state after any step, and where its time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.run import NO_USAGE, Checkpoint, Usage


def state_after(history: Sequence[Checkpoint], step: int) -> dict[str, Any]:
    """The state after `step`, keys sorted; step 0 is the seeds.

    Raises:
        IndexError: if that step was not committed.
    """
    if not 0 <= step < len(history):
        raise IndexError(f"step {step} was not committed; the last one is {len(history) - 1}")
    state: dict[str, Any] = {}
    for checkpoint in history[: step + 1]:
        state.update(checkpoint.writes)
    return dict(sorted(state.items()))


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """The committed visits of one node, durations from begin to end, parking included."""

    node: str
    visits: int
    total_ms: int
    max_ms: int
    usage: Usage

    @property
    def avg_ms(self) -> float:
        return self.total_ms / self.visits


def node_times(history: Sequence[Checkpoint]) -> list[NodeTimes]:
    """One row per node that ran, slowest total first; a map's invocations under its branch."""
    rows: dict[str, NodeTimes] = {}

    def add(node: str, visits: int, total_ms: int, max_ms: int, usage: Usage) -> None:
        old = rows.get(node, NodeTimes(node, 0, 0, 0, NO_USAGE))
        rows[node] = NodeTimes(
            node,
            old.visits + visits,
            old.total_ms + total_ms,
            max(old.max_ms, max_ms),
            old.usage + usage,
        )

    for checkpoint in history:
        for node, timing in checkpoint.nodes.items():
            milliseconds = timing.get("ms", 0)
            add(node, 1, milliseconds, milliseconds, _usage(timing))
            if branch := timing.get("branch"):
                add(branch["id"], branch["visits"], branch["ms"], branch["max_ms"], _usage(branch))
    return sorted(rows.values(), key=lambda row: (-row.total_ms, row.node))


def _usage(timing: Any) -> Usage:
    return Usage(*timing["usage"]) if "usage" in timing else NO_USAGE
