"""The `rag` node: retrieval from a knowledge base, which this version does not have yet."""

from __future__ import annotations

from graphs.errors import NodeFailed
from graphs.schema import RagNode
from worker.outcome import Outcome
from worker.visit import Visit


def run_rag(visit: Visit[RagNode]) -> Outcome:
    """Say plainly that knowledge bases are not there yet.

    Raises:
        NodeFailed: R020, always.
    """
    raise NodeFailed("R020", "rag nodes are not available in this version")
