"""Executes a node's body; the agent's code runs here and nowhere else."""

from __future__ import annotations

import logging
from time import monotonic
from typing import Any

from sleipnir.graphs.errors import NodeFailed, TextTooLong
from sleipnir.graphs.schema import RetriedNode
from sleipnir.lazy import lazy_imports
from sleipnir.scheduler.errors import TransitionRefused
from sleipnir.scheduler.runs.model import NO_USAGE
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.delivery.delivery import Delivery, DeliveryOver
from sleipnir.worker.executors import EXECUTORS
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import Failed, Outcome, Wrote, internal_error

# Lazy: most nodes have no conditions.
with lazy_imports():
    from sleipnir.worker.delivery import routing

logger = logging.getLogger(__name__)

# More than the scheduler needs to end an overdue run: it looks twice a second.
_UNTIL_SWEPT_S = 1.0


def execute(delivery: Delivery) -> Outcome:
    """Execute the node and return its outcome.

    Raises:
        DeliveryOver: the run's time was over before the node was done.
        TransitionRefused, RedisError: while recording its conversation.
    """
    visit = delivery.visit
    outcome = _outcome(visit)
    if visit.run_ends_at is not None and monotonic() >= visit.run_ends_at:
        # Either the run has ended, or its deadline was extended meanwhile and the next try may use
        # that.
        delivery.services.store.visits.requeue(delivery.lease, _UNTIL_SWEPT_S)
        raise DeliveryOver("the time of its run is over")
    return outcome


def _outcome(visit: Visit[Any]) -> Outcome:
    node = visit.node
    if node.NEEDS_NEXT and visit.item_index is None and not node.has_next:
        return Failed("R002", f"{node.type} '{visit.node_id}' has no 'next'")
    if visit.attempt > 1 and isinstance(node, RetriedNode):
        visit.services.conversation.entries()  # reads what earlier attempts used
    try:
        outcome = EXECUTORS[node.type](visit)
    except NodeFailed as failure:
        usage, before = failure.usage or NO_USAGE, failure.caused_by
        return Failed(failure.code, visit.mask(failure.message), usage, caused_by=before)
    except TextTooLong as error:
        return Failed("R021", f"node '{visit.node_id}': {error} (value_limit_bytes)")
    except (TransitionRefused, RedisError):
        raise  # while recording a turn: the visit is no longer ours, or will be redelivered
    except Exception as error:
        logger.exception("run %s: node %s", visit.run_id, visit.node_id)
        return internal_error(visit.node_id, visit.mask(repr(error)))
    if node.conditional_next is None or not isinstance(outcome, Wrote) or outcome.targets:
        return outcome
    return routing.routed(visit, outcome)
