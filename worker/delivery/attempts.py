"""Retries of `script`, `agent` and `rag` nodes that failed; `llm` nodes retry on their own."""

from __future__ import annotations

from random import uniform
from typing import Any

from sleipnir.graphs.schema import RetriedNode
from sleipnir.scheduler.runs.model import Usage
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Postponed

# Failures worth another attempt; all others, such as a missing reference, would only repeat.
RETRIED = frozenset({"R013", "R015", "R016", "R018", "R020"})

_LONGEST_DELAY_S = 60.0
# Jitter, so that visits that failed together do not all come back together.
_JITTER = (0.75, 1.0)


def next_attempt(visit: Visit[Any], reason: str, usage: Usage) -> Postponed | None:
    """Return the wait before the next attempt, or None if the node has no attempts left."""
    node = visit.node
    if not isinstance(node, RetriedNode) or visit.attempt >= node.max_attempts:
        return None
    # Attempts are unlimited, so the exponent must be bounded.
    delay_s = min(node.retry_delay_s * 2.0 ** min(visit.attempt - 1, 64), _LONGEST_DELAY_S)
    return Postponed(delay_s * uniform(*_JITTER), visit.mask(reason), usage)
