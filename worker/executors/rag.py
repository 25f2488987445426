"""The `rag` node: retrieval from a knowledge base, which this version does not have yet."""

from __future__ import annotations

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.schema import RagNode
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Outcome


def run_rag(visit: Visit[RagNode]) -> Outcome:
    """Say plainly that knowledge bases are not there yet.

    Raises:
        NodeFailed: R020, always.
    """
    raise NodeFailed("R020", "rag nodes are not available in this version")
