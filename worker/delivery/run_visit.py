"""One node visit, from its message to the next one: load, begin, admit, execute, commit.

The transitions enqueue the next visits themselves (see scheduler/store/lua), so a linear visit
takes two round trips: one begins, the other commits, advances and enqueues. If nothing else waits
in the queue, the next visit begins with the commit of the one before, in the same round trip.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from time import monotonic

from sleipnir.graphs.document.queues import DEFAULT_QUEUE
from sleipnir.graphs.errors import BundleError
from sleipnir.graphs.normal_agent import is_normal
from sleipnir.scheduler.config.secrets import hidden
from sleipnir.scheduler.errors import TransitionRefused
from sleipnir.scheduler.process.logs import working_on
from sleipnir.scheduler.runs.ids import VisitId
from sleipnir.scheduler.runs.model import Begun, Failure, Lease
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.delivery.admit import admit
from sleipnir.worker.delivery.commit import commit
from sleipnir.worker.delivery.delivery import Delivery, DeliveryOver
from sleipnir.worker.delivery.execute import execute
from sleipnir.worker.delivery.handover import handover
from sleipnir.worker.delivery.services import Services
from sleipnir.worker.visit.loaded_agent import LoadedAgent
from sleipnir.worker.visit.outcome import Ended, Outcome, Wrote

logger = logging.getLogger(__name__)


def run_visit(services: Services, run_id: str, visit_id: str, digest: str) -> str | None:
    """Run one node visit and return the code of its failure. Safe to call twice for a message."""
    lease, begun = handover.take_begun(run_id, visit_id) or (
        Lease(run_id, VisitId(visit_id), services.leases.new_token()),
        None,
    )
    return deliver(services, lease, digest, begun)


def deliver(
    services: Services, lease: Lease, digest: str, begun: Begun | None = None
) -> str | None:
    """Run the visit of a lease, which is not taken yet or was taken with the same token.

    Args:
        begun: what taking the lease has given, if it was taken.

    Returns:
        the code of the node's failure; None if it did not fail or has not ended.
    """
    try:
        agent = load(services, lease, digest)
        begun = begin(services, lease, agent, begun)
        with services.leases.holding(lease) as cancelled:
            delivery = admit(services, lease, agent, begun, cancelled)
            outcome = execute(delivery)
            code = commit(delivery, outcome)
            if services.spans is not None:
                services.spans.committed(delivery.visit, delivery.begun, outcome, code)
        _count(delivery, outcome, code)
        return code
    except (DeliveryOver, TransitionRefused) as reason:
        # Committed, parked, taken by another worker, or its run has ended: drop the message.
        logger.debug("%s %s dropped: %s", lease.run_id, lease.visit, reason)
        return None
    except RedisError:
        raise  # not the visit's fault: its timer will redeliver it
    except Exception as error:
        # Without a commit the visit would look as if its workers kept dying.
        said = {"run_id": lease.run_id, "visit": lease.visit, "code": "R023"}
        logger.exception("run %s: visit %s", lease.run_id, lease.visit, extra=said)
        text = f"internal error at visit '{lease.visit}': {hidden(repr(error))}"
        failure = Failure("R023", text, lease.visit.node)
        services.store.runs.close(lease.run_id, "failed", failure)
        return failure.code
    finally:
        working_on.set(None)


def _count(delivery: Delivery, outcome: Outcome, code: str | None) -> None:
    visit = delivery.visit
    result = "failed" if code else "done" if isinstance(outcome, Wrote | Ended) else "waits"
    seconds = monotonic() - visit.began_at
    queue = visit.node.queue or visit.graph.queue or visit.context.queue or DEFAULT_QUEUE
    delivery.services.figures.count_visit(queue, visit.node.type, result, seconds)


def load(services: Services, lease: Lease, digest: str) -> LoadedAgent:
    """Return the run's agent; fail the run if it cannot be loaded, as no visit could execute."""
    try:
        return services.agents.get(digest)
    except BundleError as error:
        said = {"run_id": lease.run_id, "visit": lease.visit, "code": "R023"}
        logger.error("run %s: %s", lease.run_id, error, extra=said)
        services.store.visits.begin(lease, (), digest)
        failure = Failure("R023", f"the agent cannot be loaded: {error}", None)
        services.store.runs.close(lease.run_id, "failed", failure)
        raise DeliveryOver("its run has failed") from error


def begin(
    services: Services, lease: Lease, agent: LoadedAgent, begun: Begun | None = None
) -> Begun:
    """Take the visit's lease, if it is not yet, and read the part of the state its node needs."""
    keys = agent.keys_for(lease.visit)
    if begun is None and keys is None and is_normal(agent.graph):
        begun = _begin_turn(services, lease, agent)
    elif begun is None:
        begun = services.store.visits.begin(lease, keys, agent.digest)
    if services.leases.closed:
        services.store.visits.requeue(lease)
        raise DeliveryOver("its worker is about to stop")
    return begun


def _begin_turn(services: Services, lease: Lease, agent: LoadedAgent) -> Begun:
    def reading(keys: Collection[str] | None) -> Begun:
        return services.store.visits.begin(lease, keys, agent.digest)

    return services.conversations.begin(lease.run_id, lease.visit.step, reading)
