"""The `rag` node: retrieves passages from a knowledge base."""

from __future__ import annotations

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.knowledge.bases import DescribedBase
from sleipnir.graphs.schema import RagNode
from sleipnir.worker.executors.attempts import next_attempt
from sleipnir.worker.executors.missing_knowledge import outcome_without
from sleipnir.worker.executors.updates import require_rendered, update_state
from sleipnir.worker.knowledge.errors import KnowledgeFailed
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Outcome, Wrote


def run_rag(visit: Visit[RagNode]) -> Outcome:
    """Search for the query; if the knowledge base is not built yet, have a child run build it.

    Raises:
        NodeFailed: R001 for the query, R020 if the knowledge base cannot be built or searched.
    """
    node = visit.node
    query = require_rendered(node.query, "query", visit)
    base = DescribedBase(visit.node_id, node.documents, node)
    try:
        found = visit.services.knowledge.search(visit, base, query, node.limit_s)
    except KnowledgeFailed as failure:
        where = f"agent '{visit.graph.name}', rag node '{visit.node_id}'"
        return _after_failure(visit, where, failure)
    writes: dict[str, object] = {}
    update_state(visit, writes, {"output": found.output})
    return Wrote(writes, output=found.output, warnings=found.warnings)


def _after_failure(visit: Visit[RagNode], where: str, failure: KnowledgeFailed) -> Outcome:
    try:
        return outcome_without(visit, where, failure)
    except NodeFailed as failed:
        again = next_attempt(visit, failed.message)
        if again is None:
            raise
        return again
