"""The outcome of a visit whose knowledge base is unavailable, for now or for good."""

from __future__ import annotations

from typing import Any

from sleipnir.graphs.errors import NodeFailed
from sleipnir.graphs.knowledge.build_graph import ORDER, build_bundle
from sleipnir.graphs.schema import MAX_SECONDS
from sleipnir.scheduler.runs.events import KB_BUILD
from sleipnir.scheduler.runs.model import NO_USAGE, Usage
from sleipnir.worker.knowledge.errors import BeingBuilt, KnowledgeFailed, NotBuilt, NotYet
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import AwaitedBuild, Deferred, Spawned


def outcome_without(
    visit: Visit[Any], where: str, failure: KnowledgeFailed, usage: Usage = NO_USAGE
) -> Spawned | Deferred | AwaitedBuild:
    """Return an outcome that has a child run build it, or that waits.

    Args:
        where: names the knowledge base in a failure.
        usage: of the visit so far, without what is counted already.

    Raises:
        NodeFailed: R020, it cannot be built or searched.
    """
    if isinstance(failure, NotBuilt):
        return _build(visit, failure)
    if isinstance(failure, NotYet | BeingBuilt):
        return deferred_by(visit, failure)
    raise NodeFailed("R020", visit.mask(f"{where}: {failure}"), usage) from failure


def deferred_by(visit: Visit[Any], wait: NotYet | BeingBuilt) -> Deferred | AwaitedBuild:
    """Return the outcome that waits, and then tries again."""
    reason = visit.mask(str(wait))
    if isinstance(wait, BeingBuilt):
        return AwaitedBuild(wait.claim, reason)
    return Deferred(wait.delay_s, reason, wait.for_person)


def _build(visit: Visit[Any], missing: NotBuilt) -> Spawned:
    order = missing.order
    name = f"{KB_BUILD} {order.agent} {order.node}"
    seeds = {ORDER: order.to_json()}
    child = visit.services.children.prepare_own(name, build_bundle(), missing.run_id, seeds)
    return Spawned(child, MAX_SECONDS)
