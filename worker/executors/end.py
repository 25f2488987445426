"""The `end` node: renders the run's result."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.schema import EndNode
from sleipnir.graphs.state import encode
from sleipnir.graphs.template import evaluate_lenient, render_lenient
from sleipnir.worker.executors.updates import update_state
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import NOTHING, Ended, Outcome


def run_end(visit: Visit[EndNode]) -> Outcome:
    """Apply the updates, then render value and output with them applied."""
    node, limit = visit.node, visit.limits.value_bytes
    writes: dict[str, Any] = {}
    update_state(visit, writes)
    value: Any = NOTHING
    if node.value is not None:
        value = evaluate_lenient(node.value, writes, visit.state, limit=limit)
    if node.output is not None:
        return Ended(
            writes, render_lenient(node.output, writes, visit.state, limit=limit), value=value
        )
    text = "" if value is NOTHING else value if isinstance(value, str) else encode(value)
    return Ended(writes, text, value=value)
