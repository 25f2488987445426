"""The `rag` node: retrieves passages from its knowledge base."""

from __future__ import annotations

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.knowledge.build_graph import ORDER, build_bundle
from sleipnir.graphs.schema import MAX_SECONDS, RagNode
from sleipnir.scheduler.runs.events import KB_BUILD
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.executors.updates import require_rendered, update_state
from sleipnir.worker.knowledge.errors import KnowledgeFailed, NotBuilt, NotYet
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Deferred, Outcome, OwnAgent, Spawned, Wrote


def run_rag(visit: Visit[RagNode]) -> Outcome:
    """Search for the query; if nobody has built the knowledge base, a child run does first.

    Raises:
        NodeFailed: R001 for the query, R020 if the knowledge base cannot be built or searched.
    """
    node, child = visit.node, visit.resumed_with
    query = require_rendered(node.query, "query", visit)
    usage = NO_USAGE if child is None else Usage.from_text(child["usage"])
    try:
        found = visit.services.knowledge.search(visit, query, node.top_k, node.timeout)
    except NotBuilt as missing:
        return _build(visit, missing)
    except NotYet as wait:
        return Deferred(wait.delay_s, visit.mask(str(wait)), wait.for_person)
    except KnowledgeFailed as error:
        message = f"agent '{visit.graph.name}', rag node '{visit.node_id}': {error}"
        raise NodeFailed("R020", visit.mask(message), usage) from error
    writes: dict[str, object] = {}
    update_state(visit, writes, {"output": found.output})
    return Wrote(writes, node.targets, found.output, usage=usage, warnings=found.warnings)


def _build(visit: Visit[RagNode], missing: NotBuilt) -> Spawned:
    bundle, order = build_bundle(), missing.order
    return Spawned(
        agent=f"{KB_BUILD} {order.agent} {order.node}",
        prompt="",
        timeout_s=MAX_SECONDS,
        own=OwnAgent(bundle, missing.run_id, {ORDER: order.to_json()}),
    )
