"""Counts model calls that have failed."""

from __future__ import annotations

import logging

from sleipnir.scheduler.errors import TransitionBroken
from sleipnir.scheduler.store.errors import RedisError
from sleipnir.scheduler.store.transitions import Transitions

logger = logging.getLogger(__name__)


def count_failed_call(store: Transitions, run_id: str, node: str, model: str) -> None:
    """Count a call of a model for a node that got no reply.

    One that cannot be counted is logged: the failure itself is what its run has to know. Calls of
    commands, which are outside of any run, are not counted.
    """
    try:
        store.call("count_failed_call", run_id, node, model)
    except ValueError:
        return
    except (RedisError, TransitionBroken) as error:
        logger.warning("cannot count a failed call of %s: %s", model, error)
