"""How a worker takes messages in: straight to a thread, unless somebody watches.

Celery's own way from a message to its task serves acknowledgements, revocation, rate limits,
ETAs, results and callbacks, none of which a visit uses; it costs about as much as the visit
itself. While a monitor has switched task events on, messages go Celery's way, which sends
them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from celery.worker.strategy import default as celery_strategy

logger = logging.getLogger("sleipnir.worker")


def visit_strategy(task: Any, app: Any, consumer: Any, **options: Any) -> Callable[..., Any]:
    """Celery's hook `Task.Strategy`: makes the handler of a task's messages."""
    celery_handler = celery_strategy(task, app, consumer, **options)
    events = consumer.event_dispatcher
    apply = consumer.pool.apply_async

    def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> Any:
        if events is not None and events.enabled and (not events.groups or "task" in events.groups):
            return celery_handler(message, body, ack, reject, callbacks)
        arguments, _, _ = message.payload
        acknowledge = partial(ack, logger, consumer.connection_errors)
        return apply(_run, (task.run, arguments, acknowledge), callback=_ignore)

    return handle


def _run(visit: Callable[..., None], arguments: list[str], ack: Callable[[], None]) -> None:
    try:
        visit(*arguments)
    except Exception:
        # The visit's timer brings it back.
        logger.exception("visit %s failed", arguments)
    finally:
        ack()


def _ignore(_result: None) -> None:
    """What the pool calls with a task's result."""
