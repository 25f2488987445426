"""Celery strategy that passes messages directly to a thread, unless tasks are monitored.

Celery's own way from a message to its task supports acknowledgements, revocation, rate limits,
ETAs, results and callbacks, none of which a visit uses; it costs about as much as the visit itself.
While a monitor has enabled task events, messages take Celery's way, which sends them.
"""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from celery.bootsteps import RUN
from celery.worker.strategy import default as celery_strategy
from kombu.exceptions import DecodeError

from sleipnir.worker.celery.app import NodeHasFailed
from sleipnir.worker.celery.broker import Credit
from sleipnir.worker.delivery.handover import handover

logger = logging.getLogger("sleipnir.worker")


def visit_strategy(task: Any, app: Any, consumer: Any, **options: Any) -> Callable[..., Any]:
    """Create the handler of a task's messages (Celery's hook `Task.Strategy`)."""
    celery_handler = celery_strategy(task, app, consumer, **options)
    events = consumer.event_dispatcher
    apply = consumer.pool.apply_async
    turns = itertools.count()

    def is_watched() -> bool:
        return (
            events is not None and events.enabled and (not events.groups or "task" in events.groups)
        )

    def handle(message: Any, body: Any, ack: Any, reject: Any, callbacks: Any) -> Any:
        if is_watched():
            return celery_handler(message, body, ack, reject, callbacks)
        credit = getattr(message.channel, "qos", None)
        queues: Callable[[], str]
        if isinstance(credit, Credit):
            arguments = _arguments(message.body)
            done = partial(_return_credit, credit, message.delivery_tag, consumer.call_soon)
            queues = partial(queues_of, message.channel)
        else:
            arguments, _, _ = message.payload
            # Other brokers hand out their messages themselves.
            done, queues = partial(ack, logger, consumer.connection_errors), str
        return apply(_run, (task.run, arguments, done, queues), callback=_ignore)

    def queues_of(channel: Any) -> str:
        """Return the queues of a worker that goes on taking messages."""
        if consumer.blueprint.state != RUN or channel.are_paused or is_watched():
            return ""
        return " ".join(channel.in_turn(next(turns)))

    return handle


def _arguments(body: str) -> list[str]:
    """Decode like `message.payload`, but without its hooks for dates and the like."""
    try:
        arguments, _, _ = json.loads(body)
        return list(arguments)
    except (ValueError, TypeError, RecursionError) as error:
        raise DecodeError(str(error)) from error  # Celery reports it


def _run(
    visit: Callable[..., None],
    arguments: list[str],
    done: Callable[[], None],
    queues: Callable[[], str],
) -> None:
    """Run the visit of a message, and those of the messages that are handed to this thread."""
    following: list[str] | None = arguments
    try:
        while following is not None:
            handover.queues, handover.message = queues(), None
            _visit(visit, following)
            following = _handed_over()
    finally:
        handover.queues = ""
        done()


def _handed_over() -> list[str] | None:
    """Return the arguments of the message that was handed over, if there is a valid one."""
    if handover.message is None:
        return None
    try:
        return _arguments(json.loads(handover.message)["body"])
    except (ValueError, KeyError, TypeError, RecursionError, DecodeError) as error:
        logger.warning("dropped an invalid message from the queue: %r", error)
        return None


def _visit(visit: Callable[..., None], arguments: list[str]) -> None:
    try:
        visit(*arguments)
    except NodeHasFailed:
        pass  # recorded with its run
    except Exception:
        # The visit's timer will redeliver it.
        said = dict(zip(("run_id", "visit"), arguments, strict=False))
        logger.exception("visit %s failed", arguments, extra=said)


def _return_credit(credit: Credit, tag: str, call_soon: Callable[..., Any]) -> None:
    if credit.return_credit(tag):
        call_soon(_nothing)


def _nothing() -> None:
    """Do nothing; calling it wakes the event loop."""


def _ignore(_result: None) -> None:
    """Ignore a task's result; the pool requires a callback."""
