"""Checkpoints written anew: in another run, or with values that somebody has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.model import Checkpoint


def retold(
    checkpoint: Checkpoint, changes: Mapping[str, str], *, nodes: Mapping[str, Any] | None = None
) -> str:
    """Return a checkpoint as the history keeps it.

    Args:
        changes: of the state after it, JSON texts.
        nodes: what it says of each node; None: the same as before.
    """
    writes = {key: encode(value) for key, value in checkpoint.writes.items()} | dict(changes)
    folded = ',"folded":true' if checkpoint.folded else ""
    return (
        f'{{"at":{checkpoint.at},"step":{checkpoint.step},'
        f'"frontier":{encode(list(checkpoint.frontier))},'
        f'"nodes":{encode(dict(checkpoint.nodes if nodes is None else nodes))}{folded},'
        f'"writes":{{{",".join(f"{encode(key)}:{text}" for key, text in writes.items())}}}}}'
    )
