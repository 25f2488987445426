"""Re-encodes checkpoints for another run, or with changed values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sleipnir.graphs.state import encode
from sleipnir.scheduler.runs.model import Checkpoint


def retold(
    checkpoint: Checkpoint, changes: Mapping[str, str], *, nodes: Mapping[str, Any] | None = None
) -> str:
    """Return a checkpoint as stored in the history.

    Args:
        changes: changes to the state after it, as JSON texts.
        nodes: replaces what it says of each node; None: unchanged.
    """
    writes = {key: encode(value) for key, value in checkpoint.writes.items()} | dict(changes)
    folded = ',"folded":true' if checkpoint.folded else ""
    return (
        f'{{"at":{checkpoint.at},"step":{checkpoint.step},'
        f'"frontier":{encode(list(checkpoint.frontier))},'
        f'"nodes":{encode(dict(checkpoint.nodes if nodes is None else nodes))}{folded},'
        f'"writes":{{{",".join(f"{encode(key)}:{text}" for key, text in writes.items())}}}}}'
    )
