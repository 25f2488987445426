"""When the visits of a run were under way, from its checkpoints alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sleipnir.scheduler.runs.model import Checkpoint, Run
from sleipnir.scheduler.store.clock import to_rfc3339
from sleipnir.scheduler.views.documents import Document

if TYPE_CHECKING:
    from sleipnir.scheduler.client import Client


def timeline_document(client: Client, run: Run, *, start: int = 0, limit: int) -> Document:
    """A row for each visit, in steps from `start` on: when it began and ended, waiting included.

    `held_up` is the visit of a step of several that ended last. Visits that are under way begin
    with their step and have no end. `next` is the step that the next page begins with.
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
    longest = max((timing.get("ms", 0) for timing in checkpoint.nodes.values()), default=0)
    for node, timing in checkpoint.nodes.items():
        took = int(timing.get("ms", 0))
        # All visits of a step are committed together; the one that took longest ended last.
        began = checkpoint.at - longest
        yield {
            "step": checkpoint.step,
            "node": node,
            "state": "tolerated" if timing.get("failed") else "done",
            "began_ms": began,
            "began_at": to_rfc3339(began),
            "took_ms": took,
            "items": timing.get("branch", {}).get("visits"),
            "held_up": len(checkpoint.nodes) > 1 and took == longest,
        }


def _open_row(run: Run, node: str, began: int) -> Document:
    return {
        "step": run.step,
        "node": node,
        "state": "waiting" if run.status == "waiting" else "running",
        "began_ms": began,
        "began_at": to_rfc3339(began),
        "took_ms": None,
        "items": None,
        "held_up": False,
    }
