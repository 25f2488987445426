"""How a worker takes messages in: straight to a thread, unless somebody watches.

Celery's own way from a message to its task serves acknowledgements, revocation, rate limits,
ETAs, results and callbacks, none of which a visit uses; it costs about as much as the visit
itself. While a monitor has switched task events on, messages go Celery's way, which sends
them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from celery.worker.strategy import default as celery_strategy
from kombu.exceptions import DecodeError

from sleipnir.worker.app import NodeHasFailed
from sleipnir.worker.broker import Credit

logger = logging.getLogger("sleipnir.worker")


def visit_strategy(task: Any, app: Any, consumer: Any, **options: Any) -> Callable[..., Any]:
    """Celery's hook `Task.Strategy`: makes the handler of a task's messages."""
    celery_handler = celery_strategy(task, app, consumer, **options)
    events = consumer.event_dispatcher
    apply = consumer.pool.apply_async

    def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> Any:
        if events is not None and events.enabled and (not events.groups or "task" in events.groups):
            return celery_handler(message, body, ack, reject, callbacks)
        credit = getattr(message.channel, "qos", None)
        if isinstance(credit, Credit):
            arguments = _arguments(message.body)
            done = partial(_return_credit, credit, message.delivery_tag, consumer.call_soon)
        else:
            arguments, _, _ = message.payload
            done = partial(ack, logger, consumer.connection_errors)
        return apply(_run, (task.run, arguments, done), callback=_ignore)

    return handle


def _arguments(body: str) -> list[str]:
    """As `message.payload` has them, without its hooks for dates and the like."""
    try:
        arguments, _, _ = json.loads(body)
    except (ValueError, TypeError) as error:
        raise DecodeError(str(error)) from error  # which Celery reports
    return list(arguments)


def _run(visit: Callable[..., None], arguments: list[str], done: Callable[[], None]) -> None:
    try:
        visit(*arguments)
    except NodeHasFailed:
        pass  # its run has it
    except Exception:
        # The visit's timer brings it back.
        logger.exception("visit %s failed", arguments)
    finally:
        done()


def _return_credit(credit: Credit, tag: str, call_soon: Callable[..., Any]) -> None:
    if credit.return_credit(tag):
        call_soon(_nothing)


def _nothing() -> None:
    """Wakes the event loop."""


def _ignore(_result: None) -> None:
    """What the pool calls with a task's result."""
