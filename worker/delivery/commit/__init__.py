"""Commit: turn what an executor returned into the transition that records it."""

from __future__ import annotations

import logging
from typing import Any, assert_never

from sleipnir.graphs.schema import ScriptNode
from sleipnir.scheduler.errors import StepFailing, TransitionRefused
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.delivery.commit import invocation, kept, parking, step
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.visit.context import Visit
from sleipnir.worker.visit.outcome import (
    Asked,
    AwaitedBuild,
    Awaiting,
    Batched,
    Deferred,
    Ended,
    Failed,
    Mapped,
    Outcome,
    Postponed,
    Spawned,
    Wrote,
    internal_error,
)

logger = logging.getLogger(__name__)


def commit(delivery: Delivery, outcome: Outcome) -> str | None:
    """Commit the outcome, at most once; one that cannot be encoded fails the run.

    Returns:
        the code of the node's failure, even of one that the run tolerates; None without a failure.

    Raises:
        TransitionRefused: the visit is no longer ours; the outcome is void.
        RedisError: Redis is unavailable; the visit's timer will redeliver it.
    """
    visit = delivery.visit
    failed = _note_failure(visit, outcome)
    _close_exchanges(delivery, outcome)
    if not _is_one_step(delivery, outcome):
        kept.keep(delivery)
    try:
        _commit(delivery, outcome)
    except (TransitionRefused, RedisError):
        raise
    except Exception as error:
        logger.exception("run %s: node %s", visit.run_id, visit.node_id)
        failure = internal_error(visit.node_id, visit.mask(repr(error)))
        _commit(delivery, failure)
        return failure.code
    return failed


def _note_failure(visit: Visit[Any], outcome: Outcome) -> str | None:
    """Log a failure, tolerated or not, and return its code."""
    match outcome:
        case Failed(code, message):
            pass
        case Wrote(failure=str(message)):
            code = outcome.failure_code or visit.node.FAILURE_CODE
        case _:
            return None
    if isinstance(visit.node, ScriptNode):
        message = message.partition("\n")[0]  # the log already holds the rest: the script's stderr
    visit.services.run_log.keep("failure", f"{code}: {message}")
    return code


def _is_one_step(delivery: Delivery, outcome: Outcome) -> bool:
    """Return whether the commit is a single transition; logs and the like go with it."""
    is_over = isinstance(outcome, Wrote | Ended | Failed)
    return is_over and (delivery.begun.width == 1 or delivery.visit.item_index is not None)


def _close_exchanges(delivery: Delivery, outcome: Outcome) -> None:
    """Have what models were sent and replied stored, if this attempt is over."""
    failed = isinstance(outcome, Failed | Postponed) or (
        isinstance(outcome, Wrote) and outcome.failure is not None
    )
    if failed or isinstance(outcome, Wrote | Ended):
        delivery.visit.services.exchanges.close(failed=failed)


def _commit(delivery: Delivery, outcome: Outcome) -> None:
    try:
        _make_transition(delivery, outcome)
    except StepFailing:
        # The step or the map has failed for good, so there is nothing left to wait for.
        if delivery.visit.item_index is None:
            step.discard(delivery)
        else:
            invocation.discard(delivery)


def _make_transition(delivery: Delivery, outcome: Outcome) -> None:
    match outcome:
        case Wrote() | Failed() if delivery.visit.item_index is not None:
            invocation.finish(delivery, outcome)
        case Wrote() | Ended() | Failed():
            step.finish(delivery, outcome)
        case Asked():
            parking.wait(delivery, outcome)
        case Awaiting(things, known):
            parking.wait(delivery, *things, known=known)
        case Spawned():
            parking.spawn(delivery, outcome)
        case Mapped():
            parking.open_map(delivery, outcome)
        case Postponed():
            parking.postpone(delivery, outcome)
        case Deferred() | AwaitedBuild():
            parking.defer(delivery, outcome)
        case Batched():
            parking.join(delivery, outcome)
        case _:
            assert_never(outcome)
