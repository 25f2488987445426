"""Brings archived runs back into Redis, with all that they have started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sleipnir.scheduler.store.keys import run_key
from sleipnir.scheduler.store.run_store import RunStore


def restore_tree(store: RunStore, run_id: str) -> int:
    """Bring back what is archived of a run and its children, the run last; return how many.

    Raises:
        ArchiveFailed: one of them cannot be read.
    """
    archived = store.archived
    if archived is None:
        return 0
    levels, level = [], [run_id]
    while level:
        levels.append(level)
        level = _children(store.client, level)
    restored = 0
    for level in reversed(levels):
        for each, at in archived.places(level).items():
            restored += store.whole_runs.restore(archived.whole(each, at), at.place)
    return restored


def _children(client: Any, run_ids: Sequence[str]) -> list[str]:
    with client.pipeline(transaction=False) as pipe:
        for run_id in run_ids:
            pipe.lrange(run_key("children", run_id), 0, -1)
        return [child for found in pipe.execute() for child in found]
