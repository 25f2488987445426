"""Which requests for providers' batches runs wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.model import Run, RunRow
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.transitions import Transitions

_CALL = "batch-"


class BatchWait(NamedTuple):
    """What a run waits for."""

    collection: str
    group: str  # "": it belongs to none yet
    live_ms: int | None  # when the call is made live; None: never


def batch_waits(store: Transitions, runs: Sequence[Run | RunRow]) -> dict[str, BatchWait]:
    """Return by run id the request that the run waits for, if its only node waits for one."""
    redis_: Any = store.client  # redis-py types every answer as a union of its two forms
    rows = [run for run in runs if len(run.frontier) == 1]
    with redis_.pipeline(transaction=False) as pipe:
        for run in rows:
            pipe.hgetall(run_key("waits", f"{run.run_id} {run.step}/{run.frontier[0]}"))
        answers = pipe.execute()
    open_rows = [
        (run.run_id, text.split(" "))
        for run, waits in zip(rows, answers, strict=True)
        for call, text in waits.items()
        if call.startswith(_CALL) and text.split(" ", 2)[1] == "open"
    ]
    if not open_rows:
        return {}
    with redis_.pipeline(transaction=False) as pipe:
        for run_id, row in open_rows:
            pipe.hmget(f"{partition_of(run_id)}:request:{row[4]}", "collection", "group")
        answers = pipe.execute()
    return {
        run_id: BatchWait(
            collection, group or "", None if row[3] == "-1" else int(row[2]) + int(row[3])
        )
        for (run_id, row), (collection, group) in zip(open_rows, answers, strict=True)
        if collection is not None
    }
