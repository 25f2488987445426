"""The `rag` node: retrieves passages from its knowledge base."""

from __future__ import annotations

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.schema import RagNode
from sleipnir.worker.executors.updates import require_rendered, update_state
from sleipnir.worker.knowledge.errors import KnowledgeFailed, NotYet
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Deferred, Outcome, Wrote


def run_rag(visit: Visit[RagNode]) -> Outcome:
    """Search for the query; the knowledge base is built first if nobody has.

    Raises:
        NodeFailed: R001 for the query, R020 if the knowledge base cannot be built or searched.
    """
    node = visit.node
    query = require_rendered(node.query, "query", visit)
    try:
        found = visit.services.knowledge.search(visit, query, node.top_k, node.timeout)
    except NotYet as wait:
        return Deferred(wait.delay_s, visit.mask(str(wait)), wait.for_person)
    except KnowledgeFailed as error:
        message = f"agent '{visit.graph.name}', rag node '{visit.node_id}': {error}"
        raise NodeFailed("R020", message) from error
    writes: dict[str, object] = {}
    update_state(visit, writes, {"output": found.output})
    return Wrote(writes, node.targets, found.output, warnings=found.warnings)
