"""Which requests for providers' batches runs wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sleipnir.scheduler.runs.ids import partition_of
from sleipnir.scheduler.runs.model import Run, RunRow
from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.transitions import Transitions

# Of the ids of waits for replies.
CALL = "batch-"
# Of a run that are looked at.
_MOST_VISITS = 16


class BatchWait(NamedTuple):
    """What a run waits for."""

    collection: str
    group: str  # "": it belongs to none yet
    live_ms: int | None  # when the call is made live; None: never


def batch_waits(store: Transitions, runs: Sequence[Run | RunRow]) -> dict[str, BatchWait]:
    """Return by run id a request that a visit of the run waits for, if one does.

    Of runs with many open visits, such as those of a map's items, some are looked at.
    """
    redis_: Any = store.client  # redis-py types every answer as a union of its two forms
    with redis_.pipeline(transaction=False) as pipe:
        for run in runs:
            pipe.hscan(run_key("visits", run.run_id), count=_MOST_VISITS)
        visits = [
            (run.run_id, visit)
            for run, (_, found) in zip(runs, pipe.execute(), strict=True)
            for visit in sorted(found)[:_MOST_VISITS]
        ]
    with redis_.pipeline(transaction=False) as pipe:
        for run_id, visit in visits:
            pipe.hgetall(run_key("waits", f"{run_id} {visit}"))
        answers = pipe.execute()
    open_rows = [
        (run_id, text.split(" "))
        for (run_id, _), waits in zip(visits, answers, strict=True)
        for call, text in waits.items()
        if call.startswith(CALL) and text.split(" ", 2)[1] == "open"
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
