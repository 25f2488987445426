"""Further attempts of `script`, `agent` and `rag` nodes; `llm` nodes pause as model calls do."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.schema import RetriedNode
from sleipnir.scheduler.process import backoff
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Postponed


def next_attempt(visit: Visit[Any], reason: str, usage: Usage = NO_USAGE) -> Postponed | None:
    """Return the wait before the next attempt, or None if the node has no attempts left."""
    node = visit.node
    if not isinstance(node, RetriedNode) or visit.attempt >= node.max_attempts:
        return None
    delay_s = backoff.of_node(node.retry_delay_s).pause_s(visit.attempt)
    return Postponed(delay_s, visit.mask(reason), usage)
