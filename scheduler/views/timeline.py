"""The timeline of a run's visits, from its checkpoints alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from sleipnir.scheduler.runs.model import Checkpoint, Run
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.documents import Document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


def timeline_document(client: Client, run: Run, *, start: int = 0, limit: int) -> Document:
    """Return a row per visit in steps from `start` on: begin, duration, waiting and parked time.

    `held_up` marks the visit of a parallel step that ended last. Running visits begin with their
    step and have no end. `next` is the first step of the next page.
    """
    rows: list[Document] = []
    following: int | None = None
    latest = run.started_at or run.created_at
    for checkpoint in client.queries.checkpoints(run.run_id, start):
        if rows and len(rows) + len(checkpoint.nodes) > limit:
            following = checkpoint.step
            break
        rows += _rows_of(checkpoint)
        latest = checkpoint.at
    if following is None and not run.is_final and run.started_at is not None:
        rows += [_open_row(run, node, latest) for node in run.frontier if node]
    now_ms = client.queries.now_ms()
    return {
        "rows": rows,
        "now_ms": run.ended_at if run.ended_at is not None else now_ms,
        "next": following,
    }


def _rows_of(checkpoint: Checkpoint) -> Iterator[Document]:
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
            "items": timing.get("branch", {}).get("visits"),
            "held_up": len(ends) > 1 and ends[node] == longest,
        }


def _waited(timing: Mapping[str, Any]) -> int:
    return int(timing.get("wait", 0))


def _took(timing: Mapping[str, Any]) -> int:
    return int(timing.get("ms", 0))


def _open_row(run: Run, node: str, began: int) -> Document:
    return {
        "step": run.step,
        "node": node,
        "state": "waiting" if run.status == "waiting" else "running",
        "began_ms": began,
        "began_at": to_rfc3339(began),
        "waited_ms": 0,
        "took_ms": None,
        "parked_ms": 0,
        "items": None,
        "held_up": False,
    }
