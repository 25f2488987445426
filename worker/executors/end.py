"""The `end` node: renders the run's result."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.schema import EndNode
from sleipnir.graphs.template import render_lenient
from sleipnir.worker.executors.updates import update_state
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Ended, Outcome


def run_end(visit: Visit[EndNode]) -> Outcome:
    """Apply the updates, then render the output with them applied."""
    writes: dict[str, Any] = {}
    update_state(visit, writes)
    output = render_lenient(visit.node.output, writes, visit.state, limit=visit.limits.value_bytes)
    return Ended(writes, output)
