"""Turns what an executor returned into the transition that makes it count."""

from __future__ import annotations

import logging
from typing import assert_never

from sleipnir.scheduler.errors import StepFailing, TransitionRefused
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.worker.delivery.commit import invocation, parking, step
from sleipnir.worker.delivery.delivery import Delivery
from sleipnir.worker.visit.outcome import (
    Asked,
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
from sleipnir.worker.visit.run_log import log_entry

logger = logging.getLogger(__name__)


def commit(delivery: Delivery, outcome: Outcome) -> None:
    """Make the outcome count, once; one that cannot be written down fails the run at once.

    Raises:
        TransitionRefused: the visit is not ours any more; the outcome is void.
        RedisError: Redis is away; the visit's timer brings it back.
    """
    visit = delivery.visit
    _keep_log(delivery)
    try:
        _commit(delivery, outcome)
    except (TransitionRefused, RedisError):
        raise
    except Exception as error:
        logger.exception("run %s: node %s", visit.run_id, visit.node_id)
        _commit(delivery, internal_error(visit.node_id, visit.mask(repr(error))))


def _keep_log(delivery: Delivery) -> None:
    visit = delivery.visit
    run_log = visit.services.run_log
    if run_log:
        entries = [
            log_entry(visit.step, visit.node_id, visit.item_index, stream, text)
            for stream, text in run_log
        ]
        delivery.services.store.runs.append_logs(visit.run_id, entries, run_log.dropped)


def _commit(delivery: Delivery, outcome: Outcome) -> None:
    try:
        _make_transition(delivery, outcome)
    except StepFailing:
        # What the visit was to wait for is of no use: its step or its map has failed for good.
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
            parking.ask(delivery, outcome)
        case Spawned():
            refused = parking.spawn(delivery, outcome)
            if refused is not None:
                _make_transition(delivery, refused)
        case Mapped():
            parking.open_map(delivery, outcome)
        case Postponed():
            parking.postpone(delivery, outcome)
        case Deferred():
            parking.defer(delivery, outcome)
        case _:
            assert_never(outcome)
