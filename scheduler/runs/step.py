"""How the visits of a run's current step stand: under way, or as the end of the run left them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sleipnir.records import dataclass
from sleipnir.scheduler.runs.model import Run, Status
from sleipnir.scheduler.runs.snapshot import OpenVisit

_TIMES = re.compile(r"(\d+)(?:\+(\d+)\+(\d+)\+(\d+))?")
# Of visits that are kept for a retry, by how they ended, as lua/lib/kept.lua says.
_OF_KEPT: Final[Mapping[str, str]] = {
    "broken": "interrupted",
    "failed": "failed",
    "misanswered": "failed",
}


@dataclass(frozen=True, slots=True)
class StoredVisit:
    """What is stored of a visit that is not committed; None for what does not exist."""

    open: str | None  # packed by lua/lib/store.lua
    kept: str | None  # how it ended, and the visit as packed
    is_staged: bool  # it has ended, and its result waits for the rest of the step


@dataclass(frozen=True, slots=True)
class StepVisit:
    """A visit of the current step.

    `state` is queued, running, waiting, staged, failed or interrupted; `untouched` if the visit
    had not begun when its run failed; or the status of a run that was ended from outside.
    """

    node: str
    state: str
    began_ms: int | None = None  # None: it has not begun, or that is not stored
    waited_ms: int = 0  # from the start of its step to its begin
    parked_ms: int = 0  # until it was parked last
    parked_at: int | None = None  # None: it is not parked


def step_visit(run: Run, node: str, stored: StoredVisit) -> StepVisit:
    """Return how the visit of a node stands."""
    kept_as, _, kept = (stored.kept or "").partition(" ")
    packed = stored.open or kept
    began, waited, parked, parked_at = _times(packed)
    state = _state(run, node, stored, kept_as)
    return StepVisit(node, state, began or None, waited, parked, parked_at or None)


def _state(run: Run, node: str, stored: StoredVisit, kept_as: str) -> str:
    if kept_as in _OF_KEPT and (run.is_final or stored.is_staged):
        return _OF_KEPT[kept_as]
    if stored.is_staged:
        return "staged"
    if not run.is_final:
        return _open_state(run, stored.open)
    if run.status != Status.FAILED or (run.failure is not None and run.failure.node == node):
        return str(run.status)
    return "untouched" if len(run.frontier) > 1 else "interrupted"


def _open_state(run: Run, packed: str | None) -> str:
    if run.started_at is None:
        return "queued"
    if packed is None:  # behind the step's window; a step of one has none
        return "queued" if len(run.frontier) > 1 else "running"
    visit = OpenVisit.parse(packed)
    if visit.status == "held":
        return "queued"
    return "running" if visit.is_busy else "waiting"


def _times(packed: str) -> list[int]:
    """Return when a packed visit began, its times, and when it was parked; 0 for what is not."""
    fields = packed.split(" ")
    found = _TIMES.fullmatch(fields[4]) if len(fields) > 4 else None
    return [0] * 4 if found is None else [int(each or 0) for each in found.groups()]
